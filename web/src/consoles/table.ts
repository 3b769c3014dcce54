// Converts the rows of a query result to CSV, JSON and tab-separated text.
import type { Schemas } from '../api/http';

export type Answer = Schemas['QueryAnswer'];

/** A value as people read it. */
export function shown(value: unknown): string {
  if (value === null || value === undefined) return 'NULL';
  return typeof value === 'object' ? JSON.stringify(value) : String(value);
}

/** RFC 4180; a null is an empty field. */
export function csv({ columns, rows }: Answer): string {
  const field = (value: unknown) => {
    const text = value === null || value === undefined ? '' : shown(value);
    return /[",\r\n]/.test(text) ? `"${text.replaceAll('"', '""')}"` : text;
  };
  return [columns.map((column) => column.name), ...rows].map((row) => `${row.map(field).join(',')}\r\n`).join('');
}

/** An object for each row; columns of the same name get a number. */
export function json({ columns, rows }: Answer): string {
  const names = columns.map(({ name }, nth) =>
    columns.findIndex((one) => one.name === name) === nth ? name : `${name}_${nth + 1}`,
  );
  return JSON.stringify(
    rows.map((row) => Object.fromEntries(names.map((name, nth) => [name, row[nth] ?? null]))),
    null,
    2,
  );
}

/** Between tabs, for spreadsheets. */
export function tabbed({ columns, rows }: Answer): string {
  const field = (value: unknown) =>
    value === null || value === undefined ? '' : shown(value).replaceAll(/[\t\r\n]+/g, ' ');
  return [columns.map((column) => column.name), ...rows].map((row) => row.map(field).join('\t')).join('\n');
}
