// units.js: figures for people.

export const NONE = "–";

const BYTES = ["B", "KiB", "MiB", "GiB", "TiB", "PiB"];

function scaled(value, step, names) {
  let i = 0;
  while (value >= step && i < names.length - 1) {
    value /= step;
    i++;
  }
  const digits = i === 0 || value >= 100 ? 0 : value >= 10 ? 1 : 2;
  return `${value.toFixed(digits)}\u00a0${names[i]}`;
}

const known = (value) => typeof value === "number" && Number.isFinite(value);

export function bytes(value) {
  return known(value) ? scaled(value, 1024, BYTES) : NONE;
}

export function byteRate(value) {
  return known(value) ? `${bytes(value)}/s` : NONE;
}

export function rate(value) {
  if (!known(value))
    return NONE;
  return `${value.toFixed(value > 0 && value < 10 ? 1 : 0)}/s`;
}

export function percent(fraction) {
  return known(fraction) ? `${Math.round(100 * fraction)}\u00a0%` : NONE;
}

export function latency(us) {
  if (!known(us) || us <= 0)
    return NONE;
  return us < 1000 ? `${Math.round(us)}\u00a0µs`
                   : `${(us / 1000).toFixed(us < 10000 ? 1 : 0)}\u00a0ms`;
}

export function count(value) {
  return known(value) ? value.toLocaleString("en") : NONE;
}

// "3 s ago", from the milliseconds since.
export function ago(ms) {
  if (!known(ms))
    return "never";
  const s = Math.max(0, Math.round(ms / 1000));
  if (s < 2)
    return "now";
  if (s < 120)
    return `${s}\u00a0s ago`;
  if (s < 7200)
    return `${Math.round(s / 60)}\u00a0min ago`;
  if (s < 172800)
    return `${Math.round(s / 3600)}\u00a0h ago`;
  return `${Math.round(s / 86400)}\u00a0days ago`;
}

// "12 min", from seconds.
export function duration(s) {
  if (!known(s))
    return NONE;
  if (s > 0 && s < 1)
    return `${Math.round(1000 * s)}\u00a0ms`;
  if (s < 120)
    return `${Math.round(s)}\u00a0s`;
  if (s < 7200)
    return `${Math.round(s / 60)}\u00a0min`;
  if (s < 172800)
    return `${(s / 3600).toFixed(1)}\u00a0h`;
  return `${Math.round(s / 86400)}\u00a0days`;
}

export function clock(date) {
  return date.toLocaleTimeString([], { hour12: false });
}

// A date with its clock, and a date, from the API's text; null: never.
export function moment(text) {
  return text ? new Date(text).toLocaleString([], { hour12: false }) : NONE;
}

export function day(text) {
  return text ? new Date(text).toLocaleDateString() : NONE;
}

// "9.8 billion years", from hours.
export function lifetime(hours) {
  const years = hours / 8766;
  if (years < 2)
    return duration(hours * 3600);
  if (years >= 1e15)
    return "over 1,000 trillion years";
  return `${years.toLocaleString("en", { notation: "compact",
    compactDisplay: "long", maximumSignificantDigits: 2 })}\u00a0years`;
}
