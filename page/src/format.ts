// Figures as texts.

export function count(value: number): string {
  return value.toLocaleString("en", { maximumFractionDigits: 0 });
}

export function rate(value: number | null | undefined): string {
  if (value === null || value === undefined) return "–";
  return value >= 10 || value === 0 ? count(value) : value.toFixed(1);
}

export function milliseconds(value: number | null | undefined): string {
  if (value === null || value === undefined) return "–";
  if (value >= 10_000) return `${(value / 1000).toFixed(1)} s`;
  return value >= 100 ? `${value.toFixed(0)} ms` : `${value.toFixed(1)} ms`;
}

export function microseconds(value: number): string {
  return value >= 1000 ? milliseconds(value / 1000) : `${value >= 10 ? value.toFixed(0) : value.toFixed(1)} µs`;
}

export function bytes(value: number): string {
  const units = ["B", "kB", "MB", "GB", "TB"];
  let place = 0;
  while (value >= 1000 && place < units.length - 1) {
    value /= 1000;
    place += 1;
  }
  return `${place && value < 100 ? value.toFixed(1) : value.toFixed(0)} ${units[place]}`;
}

export function age(micros: number, now = Date.now() * 1000): string {
  const seconds = Math.max(0, (now - micros) / 1e6);
  if (seconds < 10) return `${seconds.toFixed(1)} s`;
  if (seconds < 120) return `${seconds.toFixed(0)} s`;
  if (seconds < 7200) return `${(seconds / 60).toFixed(0)} min`;
  return seconds < 172_800 ? `${(seconds / 3600).toFixed(0)} h` : `${(seconds / 86_400).toFixed(0)} d`;
}

export function clock(milliseconds: number, fraction = false): string {
  const time = new Date(milliseconds);
  const text = time.toLocaleTimeString("en", { hour12: false });
  return fraction ? `${text}.${String(time.getMilliseconds()).padStart(3, "0")}` : text;
}

export function percent(share: number): string {
  return `${Math.round(share * 100)} %`;
}
