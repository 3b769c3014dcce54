// Lists users' programs that serve tools and agents, with their health.
import { useQuery } from '@tanstack/react-query';
import { api, type Schemas } from '../api/http';
import { Ago, ErrorNote, State, Waiting } from '../ui/parts';

type Program = Schemas['RemoteWorkerBody'];

/** How often they are listed again, in milliseconds: they come and go by themselves. */
const LIVE_MS = 5_000;

export function Programs() {
  const programs = useQuery({
    queryKey: ['programs'],
    queryFn: () => api<Schemas['RemoteWorkers']>('/api/workers'),
    refetchInterval: LIVE_MS,
  });
  if (programs.isPending) return <Waiting what="programs" />;
  if (programs.isError) return <ErrorNote error={programs.error} />;
  if (programs.data.items.length === 0) {
    return (
      <p className="note quiet">
        No programs of yours serve tools. <code>rejoin init my-agent</code> creates one.
      </p>
    );
  }
  return (
    <table>
      <thead>
        <tr>
          <th scope="col">Program</th>
          <th scope="col">State</th>
          <th scope="col">Queue</th>
          <th scope="col">Tools</th>
          <th scope="col">Calls</th>
          <th scope="col">Last seen</th>
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
            <td>
              {program.calls} of {program.slots}
            </td>
            <td>
              <Ago at={program.seenAt} />
            </td>
          </tr>
        ))}
      </tbody>
    </table>
  );
}

function stateOf(program: Program): string {
  if (!program.alive) return 'lost';
  return program.draining ? 'stopping' : 'active';
}
