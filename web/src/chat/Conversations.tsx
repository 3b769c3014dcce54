// Lists the user's conversations with search, rename and delete, and the messages that could not be sent.
import { useMutation, useQueryClient } from '@tanstack/react-query';
import { Link, useNavigate } from '@tanstack/react-router';
import { useEffect, useRef, useState } from 'react';
import { api, type Schemas } from '../api/http';
import { More, usePages } from '../api/pages';
import { Ago, ErrorNote } from '../ui/parts';
import { forgetDraft } from './draft';
import { useOutbox } from './outbox';
import { isNewPlace } from './places';
import { useNews } from './seen';
import { shownTitle } from './titles';

type Conversation = Schemas['ConversationBody'];

/** Pause in typing after which the search starts, in milliseconds. */
const TYPING_MS = 250;

export function Conversations({ current }: { current: string | null }) {
  const [words, setWords] = useState('');
  const searched = useLater(words.trim(), TYPING_MS);
  const queries = useQueryClient();
  const navigate = useNavigate();
  const list = useRef<HTMLElement>(null);
  const all = usePages<Conversation>(['conversations', searched], '/api/conversations', {
    refetchMs: searched === '' ? 15_000 : false,
    narrowedBy: { q: searched || undefined },
  });
  const { isSuccess, hasNextPage, isFetching, fetchNextPage } = all.reading;
  // A page of a search looks through a part of the conversations, and may find nothing there.
  useEffect(() => {
    if (searched !== '' && all.items.length === 0 && hasNextPage && !isFetching) void fetchNextPage();
  }, [searched, all.items.length, hasNextPage, isFetching, fetchNextPage]);
  const changed = () => queries.invalidateQueries({ queryKey: ['conversations'] });
  const rename = useMutation({
    mutationFn: ({ id, title }: { id: string; title: string }) =>
      api(`/api/conversations/${id}`, { method: 'PATCH', body: { title } }),
    onSuccess: async (_, { id }) => {
      await queries.invalidateQueries({ queryKey: ['conversation', id] });
      await changed();
    },
  });
  const remove = useMutation({
    mutationFn: (id: string) => api(`/api/conversations/${id}`, { method: 'DELETE' }),
    onSuccess: async (_, id) => {
      forgetDraft(id);
      if (id === current) await navigate({ to: '/' });
      else list.current?.querySelector<HTMLElement>('input[type=search]')?.focus();
      await changed();
    },
  });
  const isNews = useNews();
  const outbox = useOutbox();
  const stuck = outbox.filter(({ state }) => state === 'unreachable' || state === 'refused');
  // Each conversation that is not there yet, by its first message.
  const begun = stuck.filter(
    ({ place }, nth) => isNewPlace(place) && stuck.findIndex((one) => one.place === place) === nth,
  );
  const failed = all.reading.error ?? rename.error ?? remove.error;
  return (
    <aside ref={list} className="conversations" aria-label="Conversations">
      <Link to="/" className="button new">
        New conversation
      </Link>
      <input
        type="search"
        aria-label="Search chats"
        placeholder="Search chats"
        maxLength={200}
        value={words}
        onChange={(event) => setWords(event.target.value)}
      />
      {failed ? <ErrorNote error={failed} /> : null}
      {begun.length > 0 ? (
        <ul aria-label="Not sent">
          {begun.map(({ place, message }) => (
            <li key={place}>
              <Link to="/new/$place" params={{ place }}>
                {message}
                <span className="quiet">Not sent</span>
              </Link>
            </li>
          ))}
        </ul>
      ) : null}
      <ul>
        {all.items.map((one) => (
          <Row
            key={one.id}
            conversation={one}
            isCurrent={one.id === current}
            isNews={one.id !== current && isNews(one.id, one.updatedAt)}
            isStuck={stuck.some(({ place }) => place === one.id)}
            onRename={(title) => rename.mutate({ id: one.id, title })}
            onRemove={() => remove.mutate(one.id)}
          />
        ))}
      </ul>
      <p className="quiet" role="status">
        {searched === ''
          ? ''
          : isFetching
            ? 'Searching…'
            : isSuccess && all.items.length === 0 && !hasNextPage
              ? `No chats match “${searched}”.`
              : ''}
      </p>
      <More of={all} />
    </aside>
  );
}

/** A value, once it has stayed the same for a while. */
function useLater(value: string, ms: number): string {
  const [later, setLater] = useState(value);
  useEffect(() => {
    const timer = setTimeout(() => setLater(value), value === '' ? 0 : ms);
    return () => clearTimeout(timer);
  }, [value, ms]);
  return later;
}

function Row(props: {
  conversation: Conversation;
  isCurrent: boolean;
  isNews: boolean;
  isStuck: boolean;
  onRename: (title: string) => void;
  onRemove: () => void;
}) {
  const { conversation, isCurrent, isNews, isStuck, onRename, onRemove } = props;
  const [title, setTitle] = useState<string | null>(null);
  const isLeft = useRef(false);
  const shown = shownTitle(conversation);
  if (title !== null) {
    // Leaving the field stores the name, as Enter does; Escape does not.
    const close = (stores: boolean) => {
      if (isLeft.current) return;
      isLeft.current = true;
      const wanted = title.trim();
      if (stores && wanted !== '' && wanted !== conversation.title) onRename(wanted);
      setTitle(null);
    };
    return (
      <li>
        <input
          aria-label="New name"
          autoFocus
          maxLength={500}
          value={title}
          onChange={(event) => setTitle(event.target.value)}
          onBlur={() => close(true)}
          onKeyDown={(event) => {
            if (event.nativeEvent.isComposing) return;
            if (event.key === 'Enter' || event.key === 'Escape') close(event.key === 'Enter');
          }}
        />
      </li>
    );
  }
  return (
    <li className={isCurrent ? 'current' : isNews ? 'unread' : undefined}>
      <Link to="/c/$id" params={{ id: conversation.id }} title={shown} aria-current={isCurrent ? 'page' : undefined}>
        {isNews ? <span className="news" role="img" aria-label="Unread" /> : null}
        {shown}
        <span className="quiet">
          {isStuck ? 'Not sent · ' : ''}
          <Ago at={conversation.updatedAt} />
        </span>
      </Link>
      <span className="row-actions">
        <button
          type="button"
          className="plain small"
          aria-label={`Rename ${shown}`}
          onClick={() => {
            isLeft.current = false;
            setTitle(conversation.title);
          }}
        >
          ✎
        </button>
        <button
          type="button"
          className="plain small"
          aria-label={`Delete ${shown}`}
          onClick={() => {
            if (window.confirm(`Delete "${shown}"? This deletes all its messages and can't be undone.`)) onRemove();
          }}
        >
          ✕
        </button>
      </span>
    </li>
  );
}
