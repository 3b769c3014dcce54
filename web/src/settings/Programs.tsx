// Lists users' programs that serve tools and agents, with their health.
import { useQuery } from '@tanstack/react-query';
import { api, type Schemas } from '../api/http';
import { message, rich, t } from '../ui/language';
import { Ago, ErrorNote, State, Waiting } from '../ui/parts';
import { Wide } from '../ui/Wide';

type Program = Schemas['RemoteWorkerBody'];

/** How often they are listed again, in milliseconds: they come and go by themselves. */
const LIVE_MS = 5_000;

export function Programs() {
  const programs = useQuery({
    queryKey: ['programs'],
    queryFn: () => api<Schemas['RemoteWorkers']>('/api/workers'),
    refetchInterval: LIVE_MS,
  });
  if (programs.isPending) return <Waiting what={t('programs')} />;
  if (programs.isError) return <ErrorNote error={programs.error} />;
  if (programs.data.items.length === 0) {
    return (
      <p className="note quiet">
        {rich('No programs of yours serve tools. {command} creates one.', {
          command: <code>rejoin init my-agent</code>,
        })}
      </p>
    );
  }
  return (
    <Wide>
      <table>
        <thead>
          <tr>
            <th scope="col">{t('Program')}</th>
            <th scope="col">{t('State')}</th>
            <th scope="col">{t('Queue')}</th>
            <th scope="col">{t('Tools')}</th>
            <th scope="col">{t('Calls')}</th>
            <th scope="col">{t('Last seen')}</th>
          </tr>
        </thead>
        <tbody>
          {programs.data.items.map((program) => (
            <tr key={program.workerId}>
              <td>
                {program.name} <span className="quiet">{[program.language, program.version].join(' ').trim()}</span>
              </td>
              <td>
                <State state={stateOf(program)} />
              </td>
              <td>{program.queue}</td>
              <td>{program.tools.join(', ')}</td>
              <td>{t('{count} of {all}', { count: program.calls, all: program.slots })}</td>
              <td>
                <Ago at={program.seenAt} />
              </td>
            </tr>
          ))}
        </tbody>
      </table>
    </Wide>
  );
}

function stateOf(program: Program): string {
  if (!program.alive) return message('lost');
  return program.draining ? message('stopping') : 'active';
}
