// How quantities are written; the counterparts of txnconsole/quantities.py, under the same names.

const integers = new Intl.NumberFormat("en-US");
const wholes = new Intl.NumberFormat("en-US", { maximumFractionDigits: 0 });
const tenths = new Intl.NumberFormat("en-US", { minimumFractionDigits: 1, maximumFractionDigits: 1 });

export const count = (value) => (value === null || value === undefined ? "–" : integers.format(value));

/** A position in a log; the one before its first offset is none. */
export const position = (value) => (value < 0 ? "none yet" : count(value));

export function size(bytes) {
  if (bytes < 1000) return `${bytes} B`;
  if (bytes < 1e6) return `${(bytes / 1000).toFixed(1)} kB`;
  if (bytes < 1e9) return `${(bytes / 1e6).toFixed(1)} MB`;
  return `${(bytes / 1e9).toFixed(1)} GB`;
}

/** A rate with its unit: "12.3 /s"; less than one in ten seconds is given per minute. */
export function rate(perSecond) {
  if (perSecond > 0 && perSecond < 0.1) return `${(perSecond * 60).toFixed(1)} /min`;
  return `${(perSecond < 1000 ? tenths : wholes).format(perSecond)} /s`;
}

/** Of durations: milliseconds and name. */
export const UNITS = [[3600000, "h"], [60000, "min"], [1000, "s"]];
/** A unit, the one that its rest is given in, and how many digits that has. */
const STEPS = [[86400000, "d", 3600000, "h", 1], [3600000, "h", 60000, "min", 2], [60000, "min", 1000, "s", 2]];

/** "840 ms", "3.4 s", "3 min 04 s": only what is over is counted, and what comes out even has no rest. */
export function duration(milliseconds) {
  if (milliseconds === null || milliseconds === undefined) return "–";
  const ms = Math.max(0, Math.trunc(milliseconds));
  for (const [length, name, part, partName, digits] of STEPS) {
    if (ms < length) continue;
    const rest = ms % length;
    const more = rest ? ` ${String(Math.floor(rest / part)).padStart(digits, "0")} ${partName}` : "";
    return `${Math.floor(ms / length)} ${name}${more}`;
  }
  if (ms < 1000) return `${ms} ms`;
  return ms < 10000 && ms % 1000 ? `${(Math.floor(ms / 100) / 10).toFixed(1)} s` : `${Math.floor(ms / 1000)} s`;
}
