// Shows what a branch is based on: the messages of the original conversation before the one that was edited.
import { useQuery } from '@tanstack/react-query';
import { Link } from '@tanstack/react-router';
import { api, Problem, type Schemas } from '../api/http';
import { Failed } from '../ui/Failed';
import { Folded, Waiting } from '../ui/parts';
import { splitFiles } from './files';
import { Markdown } from './Markdown';
import { forkedFrom, shownTitle } from './titles';

/** Messages of the original that are read: the newest before the branch. */
const READ_MAX = 1_000;
const PAGE = 100;
/** Branches of branches that are looked through. */
const DEPTH_MAX = 5;
/** Messages that are shown without being asked for. */
const SHOWN = 6;

interface Exchange {
  id: string;
  role: string;
  content: string;
}

interface Original {
  id: string;
  title: string;
  messages: Exchange[];
}

export function Basis({ metadata }: { metadata: unknown }) {
  const runId = forkedFrom(metadata);
  const original = useQuery({
    queryKey: ['basis', runId],
    queryFn: () => originalOf(runId ?? '', DEPTH_MAX),
    enabled: runId !== null,
    staleTime: Infinity,
  });
  if (runId === null) return null;
  if (original.isPending) return <Waiting what="the original chat" />;
  if (original.isError) {
    const isGone = original.error instanceof Problem && original.error.status === 404;
    return isGone ? (
      <p className="notice">This chat is a branch. The original chat was deleted.</p>
    ) : (
      <Failed reading={original} />
    );
  }
  const { id, title, messages } = original.data;
  const early = messages.slice(0, -SHOWN);
  return (
    <section className="basis" aria-label="From the original chat">
      <p className="notice">
        This chat is a branch of{' '}
        <Link to="/c/$id" params={{ id }}>
          {title}
        </Link>
        {messages.length > 0 ? '. It is based on:' : ', starting from its first message.'}
      </p>
      {early.length > 0 ? (
        <Folded label={`${early.length} earlier messages`}>{() => <Exchanges messages={early} />}</Folded>
      ) : null}
      <Exchanges messages={messages.slice(-SHOWN)} />
    </section>
  );
}

function Exchanges({ messages }: { messages: readonly Exchange[] }) {
  return (
    <ol className="items">
      {messages.map(({ id, role, content }) => (
        <li key={id}>
          {role === 'user' ? (
            <article className="mine" aria-label="You, in the original chat">
              <p>
                {splitFiles(content).words ||
                  splitFiles(content)
                    .files.map(({ name }) => name)
                    .join(', ')}
              </p>
            </article>
          ) : (
            <article className="before" aria-label="Answer in the original chat">
              <Markdown text={content} isLive={false} />
            </article>
          )}
        </li>
      ))}
    </ol>
  );
}

/** The conversation of a run, with its messages before the run and those of the conversations that it is a branch of. */
async function originalOf(runId: string, depth: number): Promise<Original> {
  const { conversationId, messageId } = await api<Schemas['RunDetail']>(`/api/runs/${runId}`);
  if (!conversationId) throw new Problem(404, 'conversation_not_found', 'The original chat was deleted.');
  const conversation = await api<Schemas['ConversationDetail']>(`/api/conversations/${conversationId}`);
  const messages: Exchange[] = [];
  let cursor: string | null | undefined;
  do {
    const page: Schemas['MessagePage'] = await api(
      `/api/conversations/${conversationId}/messages?limit=${PAGE}${cursor ? `&cursor=${cursor}` : ''}`,
    );
    const end = page.items.findIndex(({ id }) => id === messageId);
    messages.push(...(end < 0 ? page.items : page.items.slice(0, end)));
    cursor = end < 0 ? page.nextCursor : null;
  } while (cursor && messages.length < READ_MAX);
  const earlier = forkedFrom(conversation.metadata);
  const before =
    earlier === null || depth <= 1
      ? []
      : await originalOf(earlier, depth - 1)
          .then(({ messages }) => messages)
          .catch(() => []);
  return { id: conversationId, title: shownTitle(conversation), messages: [...before, ...messages] };
}
