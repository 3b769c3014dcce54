// Shows the result of a query as a virtualized table: only the visible rows are in the page.
import { useState } from 'react';
import { download } from '../ui/download';
import { t } from '../ui/language';
import { CopyButton, duration } from '../ui/parts';
import { type Answer, csv, json, shown, tabbed } from './table';

/** A row's height [px], as the style sheet has it. */
const ROW = 28;
/** Rows above and below those in sight. */
const SPARE = 10;
/** The most that can be in sight [rows]. */
const SIGHT = 60;
/** Maximum length of a value in a cell, in characters. Longer values are shown in full on demand. */
const CELL_MAX = 120;

export function Grid({ answer, title }: { answer: Answer; title: string }) {
  const [top, setTop] = useState(0);
  const [whole, setWhole] = useState<string | null>(null);
  const { columns, rows } = answer;
  const first = Math.max(0, Math.floor(top / ROW) - SPARE);
  const last = Math.min(rows.length, first + SIGHT + 2 * SPARE);
  const name = title.replaceAll(/[^\p{L}\p{N}_-]+/gu, '-') || 'result';
  return (
    <section className="answer" aria-label={t('Result')}>
      <div className="controls">
        <span role="status">{summary(answer)}</span>
        <span className="fill" />
        <button type="button" className="plain small" onClick={() => download(`${name}.csv`, 'text/csv', csv(answer))}>
          {t('CSV')}
        </button>
        <button
          type="button"
          className="plain small"
          onClick={() => download(`${name}.json`, 'application/json', json(answer))}
        >
          {t('JSON')}
        </button>
        <CopyButton text={() => tabbed(answer)} />
      </div>
      <div
        className="grid"
        tabIndex={0}
        role="group"
        aria-label={t('Rows')}
        onScroll={(event) => setTop(event.currentTarget.scrollTop)}
      >
        <table aria-rowcount={rows.length + 1}>
          <thead>
            <tr>
              {columns.map((column, nth) => (
                <th key={nth} scope="col">
                  {column.name} <span className="quiet">{column.type}</span>
                </th>
              ))}
            </tr>
          </thead>
          <tbody>
            {first > 0 ? <Space rows={first} width={columns.length} /> : null}
            {rows.slice(first, last).map((row, nth) => (
              <tr key={first + nth} aria-rowindex={first + nth + 2}>
                {row.map((value, column) => (
                  <td key={column} className={value === null ? 'null' : undefined}>
                    <Cell text={shown(value)} onWhole={setWhole} />
                  </td>
                ))}
              </tr>
            ))}
            {last < rows.length ? <Space rows={rows.length - last} width={columns.length} /> : null}
          </tbody>
        </table>
      </div>
      {whole === null ? null : (
        <div className="whole">
          <button type="button" className="plain small" onClick={() => setWhole(null)}>
            {t('Close value')}
          </button>
          <pre className="payload" tabIndex={0}>
            {whole}
          </pre>
        </div>
      )}
    </section>
  );
}

/** How many rows a query gave or changed, and how long it took. */
function summary({ rows, elapsedMs, affectedRows, truncated }: Answer): string {
  const facts = [
    t('{count, plural, one {# row} other {# rows}} in {time}', {
      count: rows.length,
      time: duration(elapsedMs) || duration(0),
    }),
  ];
  if (typeof affectedRows === 'number') facts.push(t('{count, plural, other {# changed}}', { count: affectedRows }));
  if (truncated) facts.push(t('truncated: the result exceeds the limit'));
  return facts.join(t(', '));
}

/** Stands for rows that are out of sight. */
function Space({ rows, width }: { rows: number; width: number }) {
  return (
    // biome-ignore lint/a11y/noAriaHiddenOnFocusable: a row without `tabIndex` can't have the focus, and this one has no content.
    <tr aria-hidden="true">
      <td colSpan={width} style={{ blockSize: rows * ROW }} />
    </tr>
  );
}

function Cell({ text, onWhole }: { text: string; onWhole: (text: string) => void }) {
  if (text.length <= CELL_MAX) return text;
  return (
    <>
      {text.slice(0, CELL_MAX)}
      <button type="button" className="plain small" aria-label={t('Show full value')} onClick={() => onWhole(text)}>
        …
      </button>
    </>
  );
}
