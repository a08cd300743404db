"""Pipeline runs: start Spark jobs, follow, repeat and cancel them."""

from __future__ import annotations

from txnconsole.access.roles import Permission
from txnconsole.api.endpoint import Endpoint
from txnconsole.api.operation import Call, NoQuery, Reply, Shape, operation
from txnconsole.api.paging import page_by_number
from txnconsole.api.structs.runs import (
    CancelRun,
    ListRuns,
    RepeatRun,
    Run,
    RunKind,
    RunKinds,
    RunPage,
    RunParameter,
    RunWithResult,
    StartRun,
)
from txnconsole.runs import lifecycle, operating
from txnconsole.runs.disclosing import as_shown_to
from txnconsole.runs.kinds import KINDS
from txnconsole.runs.models import PipelineRun, RunOrigin


class Kinds(Endpoint):
    @operation(
        "listPipelineJobs",
        Permission.JOB_READ,
        Shape(answer=RunKinds),
        summary="List the Spark jobs that can be run",
    )
    def get(self, call: Call[None, NoQuery]) -> RunKinds:
        """All jobs, with the parameters that each takes."""
        return RunKinds(
            items=[
                RunKind(
                    kind=kind.name,
                    does=kind.does,
                    parameters=[
                        RunParameter(name=each.name, help=each.help, required=each.required)
                        for each in kind.parameters
                    ],
                )
                for kind in KINDS.values()
            ]
        )


class Runs(Endpoint):
    @operation(
        "listPipelineRuns",
        Permission.JOB_READ,
        Shape(query=ListRuns, answer=RunPage),
        summary="List pipeline runs",
    )
    def get(self, call: Call[None, ListRuns]) -> RunPage:
        """Newest first."""
        query = call.query
        runs = PipelineRun.objects.defer("result", "log_tail")
        for name in ("kind", "state", "who"):
            if getattr(query, name) is not None:
                runs = runs.filter(**{name: getattr(query, name)})
        page, next_cursor = page_by_number(runs, query)
        return RunPage(
            items=[Run.of(as_shown_to(call.principal, run)) for run in page],
            next_cursor=next_cursor,
        )

    @operation(
        "startPipelineRun",
        Permission.JOB_START,
        Shape(keyed=True, body=StartRun, answer=Run, statuses=(202,)),
        summary="Start a pipeline run",
    )
    def post(self, call: Call[StartRun, NoQuery]) -> Reply:
        """A worker starts it within seconds, or when those before it have ended. A job that writes
        messages also needs the right to produce to the topics that it names."""
        run = operating.start(
            call.body.kind,
            call.body.parameters,
            principal=call.principal,
            actor=self.actor(),
            origin=RunOrigin.API,
            reason=call.body.reason.strip(),
        )
        return Reply(Run.of(run), 202)


class OneRun(Endpoint):
    @operation(
        "getPipelineRun",
        Permission.JOB_READ,
        Shape(answer=RunWithResult),
        summary="Show a pipeline run",
    )
    def get(self, call: Call[None, NoQuery]) -> RunWithResult:
        """Its progress and, when it has ended, its result and the end of its log. The log and the
        job's error, which may quote messages, are for those who may read payloads."""
        run = lifecycle.find(self.kwargs["run_id"])
        return RunWithResult.whole(as_shown_to(call.principal, run))


class RepetitionOfRun(Endpoint):
    @operation(
        "repeatPipelineRun",
        Permission.JOB_START,
        Shape(keyed=True, body=RepeatRun, answer=Run, statuses=(202,)),
        summary="Run a pipeline run again",
    )
    def post(self, call: Call[RepeatRun, NoQuery]) -> Reply:
        """Starts another run with the same parameters; 409 `InvalidRunState` while it has not
        ended."""
        run = operating.repeat(
            self.kwargs["run_id"],
            principal=call.principal,
            actor=self.actor(),
            origin=RunOrigin.API,
            reason=call.body.reason.strip(),
        )
        return Reply(Run.of(run), 202)


class CancellationOfRun(Endpoint):
    @operation(
        "cancelPipelineRun",
        Permission.JOB_CANCEL,
        Shape(keyed=True, body=CancelRun, answer=Run),
        summary="Cancel a pipeline run",
    )
    def post(self, call: Call[CancelRun, NoQuery]) -> Run:
        """A queued run ends at once, the processes of a running one within seconds. Cancelling
        again is success; a run that is done or failed answers 409 `InvalidRunState`."""
        run = operating.cancel(
            self.kwargs["run_id"], actor=self.actor(), reason=call.body.reason.strip()
        )
        return Run.of(run)
