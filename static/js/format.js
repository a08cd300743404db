// How numbers are written; the counterparts of the template filters of the same names.

const integers = new Intl.NumberFormat("en-US");

export const count = (value) => (value === null || value === undefined ? "–" : integers.format(value));

export function size(bytes) {
  if (bytes < 1000) return `${bytes} B`;
  if (bytes < 1e6) return `${(bytes / 1000).toFixed(1)} kB`;
  return `${(bytes / 1e6).toFixed(1)} MB`;
}
