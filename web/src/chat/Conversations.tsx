// The user's conversations: find, rename, delete.
import { useMutation, useQueryClient } from '@tanstack/react-query';
import { Link, useNavigate } from '@tanstack/react-router';
import { useState } from 'react';
import { api, type Schemas } from '../api/http';
import { More, usePages } from '../api/pages';
import { Ago, ErrorNote } from '../ui/parts';
import { useNews } from './seen';

type Conversation = Schemas['ConversationBody'];

export function Conversations({ current }: { current: string | null }) {
  const [words, setWords] = useState('');
  const queries = useQueryClient();
  const navigate = useNavigate();
  const all = usePages<Conversation>(['conversations'], '/api/conversations', { refetchMs: 15_000 });
  const changed = () => queries.invalidateQueries({ queryKey: ['conversations'] });
  const rename = useMutation({
    mutationFn: ({ id, title }: { id: string; title: string }) => api(`/api/conversations/${id}`, { method: 'PATCH', body: { title } }),
    onSuccess: changed,
  });
  const remove = useMutation({
    mutationFn: (id: string) => api(`/api/conversations/${id}`, { method: 'DELETE' }),
    onSuccess: async (_, id) => {
      if (id === current) await navigate({ to: '/' });
      await changed();
    },
  });
  const isNews = useNews();
  const shown = all.items.filter((one) => one.title.toLowerCase().includes(words.toLowerCase()));
  const failed = all.reading.error ?? rename.error ?? remove.error;
  return (
    <aside className="conversations" aria-label="Conversations">
      <Link to="/" className="button new">
        New conversation
      </Link>
      <input type="search" aria-label="Find a conversation" placeholder="Find" value={words} onChange={(event) => setWords(event.target.value)} />
      {failed ? <ErrorNote error={failed} /> : null}
      <ul>
        {shown.map((one) => (
          <Row
            key={one.id}
            conversation={one}
            isCurrent={one.id === current}
            isNews={one.id !== current && isNews(one.id, one.updatedAt)}
            onRename={(title) => rename.mutate({ id: one.id, title })}
            onRemove={() => remove.mutate(one.id)}
          />
        ))}
      </ul>
      <More of={all} label="Older ones" />
    </aside>
  );
}

function Row(props: { conversation: Conversation; isCurrent: boolean; isNews: boolean; onRename: (title: string) => void; onRemove: () => void }) {
  const { conversation, isCurrent, isNews, onRename, onRemove } = props;
  const [title, setTitle] = useState<string | null>(null);
  if (title !== null) {
    return (
      <li>
        <input
          aria-label="Its new name"
          autoFocus
          value={title}
          onChange={(event) => setTitle(event.target.value)}
          onBlur={() => setTitle(null)}
          onKeyDown={(event) => {
            if (event.key === 'Enter' && title.trim() !== '') onRename(title.trim());
            if (event.key === 'Enter' || event.key === 'Escape') setTitle(null);
          }}
        />
      </li>
    );
  }
  return (
    <li className={isCurrent ? 'current' : isNews ? 'unread' : undefined}>
      <Link to="/c/$id" params={{ id: conversation.id }} aria-current={isCurrent ? 'page' : undefined}>
        {isNews ? <span className="news" role="img" aria-label="Unread" /> : null}
        {conversation.title || 'Untitled'}
        <span className="quiet">
          <Ago at={conversation.updatedAt} />
        </span>
      </Link>
      <span className="row-actions">
        <button type="button" className="plain small" aria-label={`Rename ${conversation.title}`} onClick={() => setTitle(conversation.title)}>
          ✎
        </button>
        <button
          type="button"
          className="plain small"
          aria-label={`Delete ${conversation.title}`}
          onClick={() => {
            if (window.confirm(`Delete "${conversation.title}" with all that was said in it?`)) onRemove();
          }}
        >
          ✕
        </button>
      </span>
    </li>
  );
}
