// Lists the project's queues. They are paused and resumed here, if no other project uses them.
import { useMutation, useQueryClient } from '@tanstack/react-query';
import { Pause, Play } from 'lucide-react';
import { api, type Schemas } from '../api/http';
import { confirmed } from '../ui/Dialog';
import { number, t } from '../ui/language';
import { ErrorNote, State } from '../ui/parts';
import { Wide } from '../ui/Wide';
import { seconds } from './charts';
import { Heads } from './Heads';

type Operations = Schemas['Operations'];
type Queue = Operations['queues'][number];

export function Queues({ operations, path }: { operations: Operations; path: string }) {
  const { queues, mayPauseQueues } = operations;
  const queries = useQueryClient();
  const change = useMutation({
    mutationFn: ({ queue, paused }: Queue) =>
      api(`${path}/queues/${encodeURIComponent(queue)}/${paused ? 'resume' : 'pause'}`, { method: 'POST' }),
    onSettled: () => queries.invalidateQueries({ queryKey: ['operations'] }),
  });
  const turn = async (queue: Queue) => {
    const isAgreed =
      queue.paused ||
      (await confirmed({
        title: t('Pause the queue {queue}?', { queue: queue.queue }),
        detail: t(
          'No new jobs of the queue begin, such as answers in chats, until it is resumed. Running jobs continue.',
        ),
        action: t('Pause'),
      }));
    if (isAgreed) change.mutate(queue);
  };
  return (
    <section id="queues">
      <h2>{t('Queues')}</h2>
      {change.isError ? <ErrorNote error={change.error} /> : null}
      <Wide>
        <table>
          <thead>
            <Heads
              names={[t('Queue')]}
              counts={[
                t('Available'),
                t('Scheduled'),
                t('Blocked'),
                t('Running'),
                t('Dead letter'),
                t('Oldest available'),
              ]}
              hasActions={mayPauseQueues}
            />
          </thead>
          <tbody>
            {queues.map((queue) => (
              <tr key={queue.queue}>
                <th scope="row">
                  {queue.queue} {queue.paused ? <State state="paused" /> : null}
                </th>
                {[queue.available, queue.scheduled, queue.held, queue.running, queue.dead].map((count, nth) => (
                  <td key={nth} className="number">
                    {number(count)}
                  </td>
                ))}
                <td className="number">{seconds(queue.oldestAvailableS)}</td>
                {mayPauseQueues ? (
                  <td>
                    <button
                      type="button"
                      className="plain small"
                      disabled={change.isPending}
                      onClick={() => void turn(queue)}
                    >
                      {queue.paused ? <Play className="icon" /> : <Pause className="icon" />}
                      {queue.paused ? t('Resume') : t('Pause')}
                    </button>
                  </td>
                ) : null}
              </tr>
            ))}
          </tbody>
        </table>
      </Wide>
    </section>
  );
}
