// A table of an answer: it scrolls by itself, and can be copied for a spreadsheet or saved as CSV.
import { Download } from 'lucide-react';
import { type ReactNode, useRef } from 'react';
import { IconButton } from '../ui/Button';
import { download } from '../ui/download';
import { t } from '../ui/language';
import { CopyButton } from '../ui/parts';

export function MarkdownTable({ children }: { children: ReactNode }) {
  const table = useRef<HTMLTableElement>(null);
  const rows = () =>
    [...(table.current?.rows ?? [])].map((row) => [...row.cells].map((cell) => cell.textContent.trim()));
  return (
    <div className="table-block">
      {/* What scrolls can be scrolled by keys. */}
      <section className="scroller" aria-label={t('Table')} tabIndex={0}>
        <table ref={table} dir="auto">
          {children}
        </table>
      </section>
      <div className="table-tools">
        <CopyButton label={t('Copy table')} of={t('table')} text={() => separated(rows(), '\t')} />
        <IconButton
          icon={Download}
          label={t('Download as CSV')}
          onClick={() => download('table.csv', 'text/csv', separated(rows(), ','))}
        />
      </div>
    </div>
  );
}

/** RFC 4180, with another separator if need be. */
function separated(rows: readonly (readonly string[])[], separator: string): string {
  const cell = (text: string) =>
    text.includes(separator) || /["\r\n]/.test(text) ? `"${text.replaceAll('"', '""')}"` : text;
  return `${rows.map((row) => row.map(cell).join(separator)).join('\r\n')}\r\n`;
}
