// The results of an evaluation, one case a row. A row opens to show the expected and the given answer.
import { Link } from '@tanstack/react-router';
import { type ReactNode, useState } from 'react';
import { useMe } from '../api/me';
import { number, t } from '../ui/language';
import { Payload, State } from '../ui/parts';
import { Wide } from '../ui/Wide';
import { isChanged, type Row } from './compare';
import { Disclosure } from './Disclosure';
import { type Evaluation, nameOf, type Result, resultStateOf } from './evaluations';

/** Columns that are always there. */
const COLUMNS = 4;

interface ResultsProps {
  rows: readonly Row[];
  evaluation: Evaluation;
  /** The evaluation that it is compared with. */
  other: Evaluation | undefined;
}

export function Results({ rows, evaluation, other }: ResultsProps) {
  const me = useMe();
  const [open, setOpen] = useState<ReadonlySet<string>>(new Set());
  const toggle = (id: string) => {
    const next = new Set(open);
    if (!next.delete(id)) next.add(id);
    setOpen(next);
  };
  // Only the user who started it can open its runs.
  const isMine = evaluation.createdBy === me.userId;
  return (
    <Wide>
      <table className="cases">
        <thead>
          <tr>
            <th scope="col">{t('Question')}</th>
            <th scope="col">{other ? nameOf(evaluation) : t('State')}</th>
            {other ? <th scope="col">{nameOf(other)}</th> : null}
            <th scope="col" className="number">
              {t('Score')}
            </th>
            <th scope="col">{t('Reason')}</th>
            {isMine ? <th scope="col">{t('Runs')}</th> : null}
          </tr>
        </thead>
        <tbody>
          {rows.map((row) => (
            <ResultRows
              key={row.result.caseId}
              row={row}
              evaluation={evaluation}
              other={other}
              isMine={isMine}
              isOpen={open.has(row.result.caseId)}
              onToggle={() => toggle(row.result.caseId)}
            />
          ))}
        </tbody>
      </table>
    </Wide>
  );
}

interface RowProps {
  row: Row;
  evaluation: Evaluation;
  other: Evaluation | undefined;
  isMine: boolean;
  isOpen: boolean;
  onToggle: () => void;
}

function ResultRows({ row, evaluation, other, isMine, isOpen, onToggle }: RowProps) {
  const { result } = row;
  const changed = isChanged(row);
  return (
    <>
      <tr className={changed ? 'different' : undefined}>
        <th scope="row">
          <Disclosure question={result.question} isOpen={isOpen} onToggle={onToggle} />
        </th>
        <td>
          <State state={resultStateOf(result)} />
          {changed ? <span className="hidden">{t(', changed')}</span> : null}
        </td>
        {other ? <td>{row.other ? <State state={resultStateOf(row.other)} /> : '—'}</td> : null}
        <td className="number">{scoreOf(result)}</td>
        <td>
          {result.reason ? (
            <p dir="auto" className="clamped">
              {result.reason}
            </p>
          ) : null}
        </td>
        {isMine ? (
          <td className="run-links">
            <RunLink id={result.runId}>{t('Answer run')}</RunLink>
            <RunLink id={result.judgeRunId}>{t('Judge run')}</RunLink>
          </td>
        ) : null}
      </tr>
      {isOpen ? (
        <tr>
          <td colSpan={COLUMNS + (other ? 1 : 0) + (isMine ? 1 : 0)}>
            <div className="answers">
              <Answer name={t('Expected answer')} text={result.expected} />
              <Answer name={answerName(result, evaluation)} text={result.answer} />
              <Answer name={t('Reason')} text={result.reason} />
              {other && row.other ? (
                <>
                  <Answer name={t('Answer of {agent}', { agent: nameOf(other) })} text={row.other.answer} />
                  <Answer name={t('Reason for {agent}', { agent: nameOf(other) })} text={row.other.reason} />
                </>
              ) : null}
            </div>
          </td>
        </tr>
      ) : null}
    </>
  );
}

/** The agent may have been changed while the evaluation ran: it answers in its newest version. */
function answerName({ agentVersion }: Result, evaluation: Evaluation): string {
  return agentVersion && agentVersion !== evaluation.agentVersion
    ? t('Answer of version {version}', { version: String(agentVersion) })
    : t('Answer');
}

function scoreOf({ score }: Result): string {
  return score === null || score === undefined ? '—' : number(score, { maximumFractionDigits: 2 });
}

function RunLink({ id, children }: { id: string | null | undefined; children: ReactNode }) {
  if (!id) return null;
  return (
    <Link to="/runs/$id" params={{ id }}>
      {children}
    </Link>
  );
}

function Answer({ name, text }: { name: string; text: string | null | undefined }) {
  return (
    <section aria-label={name}>
      <h4>{name}</h4>
      <Payload value={text || null} />
    </section>
  );
}
