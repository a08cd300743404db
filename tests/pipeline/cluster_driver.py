"""A driver for a cluster: copies a topic, read straight from the brokers, exactly once.

Run as a program by test_cluster.py: ``MASTER SOURCE TARGET``; everything else is its environment.
"""

from __future__ import annotations

import sys

from txnconsole.pipeline.session import build_session, stop_session

_CONFIG = {
    "spark.executor.memory": "512m",
    "spark.executor.cores": "1",
    "spark.executor.extraJavaOptions": "-XX:+UseSerialGC -XX:TieredStopAtLevel=1",
}


def main(master: str, source: str, target: str) -> None:
    spark = build_session("cluster", master=master, config=_CONFIG)
    frame = (
        spark.read.format("txnconsole")
        .options(topic=source, columns="payload", bytesPerTask="4000")
        .load()
    )
    (
        frame.write.format("txnconsole")
        .options(topic=target, sink=f"cluster-{target}", batch="0")
        .mode("append")
        .save()
    )
    stop_session(spark)


if __name__ == "__main__":
    main(*sys.argv[1:])
