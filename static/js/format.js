// How numbers are written; the counterparts of the template filters of the same names.

const integers = new Intl.NumberFormat("en-US");

export const count = (value) => (value === null || value === undefined ? "–" : integers.format(value));

export function size(bytes) {
  if (bytes < 1000) return `${bytes} B`;
  if (bytes < 1e6) return `${(bytes / 1000).toFixed(1)} kB`;
  if (bytes < 1e9) return `${(bytes / 1e6).toFixed(1)} MB`;
  return `${(bytes / 1e9).toFixed(1)} GB`;
}

/** Of durations: milliseconds and name. */
export const UNITS = [[3600000, "h"], [60000, "min"], [1000, "s"]];

/** A duration in one unit, to two digits or so: "840 ms", "3.4 s", "12 min". */
export function brief(milliseconds) {
  for (const [unit, name] of UNITS) {
    const value = milliseconds / unit;
    if (value >= 1) return `${value < 10 ? value.toFixed(1) : Math.round(value)} ${name}`;
  }
  return `${Math.round(milliseconds)} ms`;
}
