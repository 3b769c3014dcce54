// Shows the raw log of a run, and next to it the conversation as its reader saw it at the selected event.
import type { TranscriptView } from '@rejoin/client';
import { Link, useNavigate, useParams, useSearch } from '@tanstack/react-router';
import { ChevronFirst, ChevronLast, ChevronLeft, ChevronRight, type LucideIcon } from 'lucide-react';
import { useEffect, useMemo, useState } from 'react';
import { TurnView } from '../chat/TurnView';
import { IconButton } from '../ui/Button';
import { number, rich, t } from '../ui/language';
import { CopyButton, Folded, Payload, Waiting } from '../ui/parts';
import { useTitle } from '../ui/title';
import { EventList } from './EventList';
import { type Attempt, attemptsOf, type Entry, Replay, useRunLog } from './log';
import { RunFailed } from './RunFailed';

/** The address follows once it has stayed for so long: browsers refuse an address that changes with every pixel. */
const SETTLED_MS = 300;

export function LogView() {
  useTitle(t('Run log'));
  const { id } = useParams({ from: '/runs/$id/log' });
  const { entries, isOver, error } = useRunLog(id);
  return (
    <main id="main" className="page wide">
      <div className="title">
        <h1>{t('Log')}</h1>
        <Link to="/runs/$id" params={{ id }}>
          {t('Run {id}', { id: id.slice(-12) })}
        </Link>
        <span className="quiet">
          {isOver
            ? t('{count, plural, other {# events}}', { count: entries.length })
            : t('{count, plural, other {# events}}, live', { count: entries.length })}
        </span>
        <div className="actions">
          <CopyButton text={() => location.href} label={t('Copy link')} />
        </div>
      </div>
      {error ? <RunFailed error={error} /> : null}
      {entries.length > 0 ? (
        <Log key={id} id={id} entries={entries} />
      ) : isOver ? null : (
        <Waiting what={t('the log')} />
      )}
    </main>
  );
}

function Log({ id, entries }: { id: string; entries: Entry[] }) {
  const search = useSearch({ from: '/runs/$id/log' });
  const navigate = useNavigate({ from: '/runs/$id/log' });
  // None: the newest, also while more come.
  const [at, setAt] = useState(search.at);
  const [without, setWithout] = useState(() => new Set(search.without?.split(',')));
  useEffect(() => {
    const timer = setTimeout(() => {
      void navigate({
        params: { id },
        search: { at, without: without.size > 0 ? [...without].join(',') : undefined },
        replace: true,
      });
    }, SETTLED_MS);
    return () => clearTimeout(timer);
  }, [navigate, id, at, without]);

  const types = useMemo(() => {
    const counts = new Map<string, number>();
    for (const { event } of entries) counts.set(event.type, (counts.get(event.type) ?? 0) + 1);
    return [...counts].sort(([a], [b]) => a.localeCompare(b));
  }, [entries]);
  const listed = useMemo(() => entries.filter(({ event }) => !without.has(event.type)), [entries, without]);
  const { attempts, taken } = useMemo(() => attemptsOf(entries), [entries]);
  const upTo = at ?? entries.at(-1)?.seq ?? 0;
  const chosen = listed.findLastIndex(({ seq }) => seq <= upTo);
  const choose = (nth: number) => setAt(nth >= listed.length - 1 && without.size === 0 ? undefined : listed[nth]?.seq);
  const entry = listed[chosen];
  return (
    <>
      <Attempts attempts={attempts} taken={taken.size} go={setAt} />
      <fieldset className="chips filter">
        <legend className="hidden">{t('Event types')}</legend>
        {types.map(([type, count]) => (
          <label key={type}>
            <input
              type="checkbox"
              checked={!without.has(type)}
              onChange={() => {
                const next = new Set(without);
                if (!next.delete(type)) next.add(type);
                setWithout(next);
              }}
            />{' '}
            {type} <span className="quiet">{number(count)}</span>
          </label>
        ))}
      </fieldset>
      <div className="player">
        <Step label={t('First event')} icon={ChevronFirst} to={0} from={chosen} go={choose} />
        <Step label={t('Previous event')} icon={ChevronLeft} to={chosen - 1} from={chosen} go={choose} />
        <input
          type="range"
          aria-label={t('Position in the log')}
          aria-valuetext={
            entry
              ? t('event {seq}, {type}', { seq: String(entry.seq), type: entry.event.type })
              : t('before the first event')
          }
          min={0}
          max={Math.max(0, listed.length - 1)}
          value={Math.max(0, chosen)}
          onChange={(event) => choose(event.currentTarget.valueAsNumber)}
        />
        <Step
          label={t('Next event')}
          icon={ChevronRight}
          to={Math.min(chosen + 1, listed.length - 1)}
          from={chosen}
          go={choose}
        />
        <Step label={t('Last event')} icon={ChevronLast} to={listed.length - 1} from={chosen} go={choose} />
        <output className="quiet">{entry ? t('event {seq}', { seq: String(entry.seq) }) : t('no event yet')}</output>
      </div>
      <div className="log">
        <section aria-label={t('Events')}>
          {listed.length > 0 ? (
            <EventList entries={listed} chosen={chosen} choose={choose} taken={taken} />
          ) : (
            <p className="quiet">{t('No events of the selected types.')}</p>
          )}
          {entry ? (
            <Folded
              key={entry.seq}
              open
              label={
                <>
                  {rich('Event {seq}: {type}', { seq: String(entry.seq), type: <b>{entry.event.type}</b> })}
                  {taken.has(entry.seq) ? <span className="quiet"> {t('— discarded by a reset')}</span> : null}
                </>
              }
            >
              {() => <Payload value={entry.event} />}
            </Folded>
          ) : null}
        </section>
        <Shown entries={entries} upTo={upTo} />
      </div>
    </>
  );
}

function Step({
  label,
  icon,
  to,
  from,
  go,
}: {
  label: string;
  icon: LucideIcon;
  to: number;
  from: number;
  go: (nth: number) => void;
}) {
  return <IconButton icon={icon} label={label} disabled={to === from || to < 0} onClick={() => go(to)} />;
}

/** The attempts of a run that has had more than one. */
function Attempts({ attempts, taken, go }: { attempts: Attempt[]; taken: number; go: (seq: number) => void }) {
  if (attempts.length < 2) return null;
  return (
    <section className="attempts" aria-label={t('Attempts')}>
      {attempts.map(({ seq, attempt, agent, reason }) => (
        <button key={seq} type="button" className="small" onClick={() => go(seq)}>
          {agent ? t('{agent}, attempt {attempt}', { agent, attempt }) : t('Attempt {attempt}', { attempt })}
          <span className="quiet">
            {' '}
            {reason
              ? t('from event {seq}: {reason}', { seq: String(seq), reason })
              : t('from event {seq}', { seq: String(seq) })}
          </span>
        </button>
      ))}
      {taken > 0 ? (
        <span className="quiet">{t('{count, plural, other {# events were discarded}}', { count: taken })}</span>
      ) : null}
    </section>
  );
}

/** The conversation as its reader saw it. The buttons do nothing in a replay. */
function Shown({ entries, upTo }: { entries: Entry[]; upTo: number }) {
  const [replay] = useState(() => new Replay());
  const count = entries.findLastIndex(({ seq }) => seq <= upTo) + 1;
  const view: TranscriptView = useMemo(() => replay.after(count, entries), [replay, count, entries]);
  return (
    <section className="shown" aria-label={t('View at this event')}>
      <h2>{t('View at this event')}</h2>
      {view.items.length === 0 ? <p className="quiet">{t('Nothing yet.')}</p> : null}
      <fieldset disabled>
        <legend className="hidden">{t('Replay of the conversation')}</legend>
        {view.items.map((item) =>
          item.type === 'message' ? (
            <p key={item.message.id} dir="auto" className="told">
              {item.message.content}
            </p>
          ) : (
            <TurnView key={item.turn.id} turn={item.turn} />
          ),
        )}
      </fieldset>
    </section>
  );
}
