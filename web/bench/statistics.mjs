// Numbers of several measurements.

export function quantile(values, share) {
  const sorted = [...values].sort((a, b) => a - b);
  return sorted[Math.min(sorted.length - 1, Math.floor(sorted.length * share))] ?? 0;
}

export const median = (values) => quantile(values, 0.5);
export const sum = (values) => values.reduce((all, one) => all + one, 0);
export const greatest = (values) => values.reduce((most, one) => Math.max(most, one), 0);
