/** Numbers, sizes and times as text. Unknown values are shown as a dash. */

export const UNKNOWN = "–";

type Maybe = number | null | undefined;

export function percent(value: Maybe, digits = 0): string {
  return value == null ? UNKNOWN : `${(100 * value).toFixed(digits)}%`;
}

export function ratio(value: Maybe): string {
  return value == null ? UNKNOWN : value.toFixed(3);
}

export function decimal(value: Maybe, digits = 1): string {
  return value == null ? UNKNOWN : value.toFixed(digits);
}

const UNITS = ["B", "KiB", "MiB", "GiB", "TiB", "PiB"] as const;

export function bytes(value: Maybe): string {
  if (value == null) return UNKNOWN;
  let size = value;
  let unit = 0;
  while (Math.abs(size) >= 1024 && unit < UNITS.length - 1) {
    size /= 1024;
    unit += 1;
  }
  return `${size.toFixed(unit === 0 || size >= 100 ? 0 : 1)} ${UNITS[unit]}`;
}

export function duration(seconds: Maybe): string {
  if (seconds == null) return UNKNOWN;
  const total = Math.max(0, Math.round(seconds));
  if (total < 60) return `${total} s`;
  if (total < 3600) {
    const seconds = total % 60;
    return `${Math.floor(total / 60)} min${seconds === 0 ? "" : ` ${seconds} s`}`;
  }
  const hours = Math.floor(total / 3600);
  if (hours < 48) {
    const minutes = Math.floor((total % 3600) / 60);
    return `${hours} h${minutes === 0 ? "" : ` ${minutes} min`}`;
  }
  return `${Math.floor(hours / 24)} d${hours % 24 === 0 ? "" : ` ${hours % 24} h`}`;
}

export function count(value: number, noun: string, plural = `${noun}s`): string {
  return `${value.toLocaleString("en")} ${value === 1 ? noun : plural}`;
}

function two(value: number): string {
  return String(value).padStart(2, "0");
}

/** Return the local time of an ISO timestamp, as 2026-11-23 18:05:12. */
export function dateTime(text: string | null | undefined): string {
  if (!text) return UNKNOWN;
  const at = new Date(text);
  const day = `${at.getFullYear()}-${two(at.getMonth() + 1)}-${two(at.getDate())}`;
  return `${day} ${clockTime(text)}`;
}

/** Return the local time of day of an ISO timestamp, as 18:05:12. */
export function clockTime(text: string): string {
  const at = new Date(text);
  return `${two(at.getHours())}:${two(at.getMinutes())}:${two(at.getSeconds())}`;
}

/** Return the time of day if the timestamp is of today, or the date with it. */
export function shortTime(text: string): string {
  const today = new Date().toDateString() === new Date(text).toDateString();
  return today ? clockTime(text) : dateTime(text);
}

/** Return a text with its long amounts of seconds, such as `14400 s`, as durations. */
export function withDurations(text: string): string {
  return text.replace(/\b(\d+)(?:\.\d+)? s\b/g, (found, seconds: string) => (Number(seconds) >= 120 ? duration(Number(seconds)) : found));
}

/** Codes of reasons whose words alone say too little. */
const CODE_TEXTS: Record<string, string> = {
  "mobility-live": "live",
  "mobility-cold": "migrated only while stopped",
  "mobility-none": "cannot be migrated",
};

/** Return a code as words: `node-over-limit` as "node over limit". */
export function words(code: string): string {
  return CODE_TEXTS[code] ?? code.replaceAll("-", " ").replaceAll("_", " ");
}

/** Return the name of a field as a label: `cpu_limit` as "CPU limit". */
export function label(name: string): string {
  return words(name)
    .replace(/\bcpu\b/g, "CPU")
    .replace(/\bio\b/g, "I/O")
    .replace(/\bksm\b/g, "KSM");
}
