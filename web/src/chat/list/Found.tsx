// What a search finds: conversations whose title or messages contain the text, and below them messages by their words.
import { Link } from '@tanstack/react-router';
import { useEffect, useState } from 'react';
import type { Schemas } from '../../api/http';
import { More, usePages } from '../../api/pages';
import { Failed } from '../../ui/Failed';
import { rich, t } from '../../ui/language';
import { Ago } from '../../ui/parts';
import { reveal } from '../linked';
import { shownTitle } from '../titles';
import { ChatRows, useList } from './ChatRows';
import { useChats, useFolders } from './chats';
import { Snippet } from './Snippet';

type Hit = Schemas['MessageHit'];

/** Conversations and messages that are shown at a time. */
const CHATS_PAGE = 5;
const MESSAGES_PAGE = 20;

const ANYWHERE = '';
const NOT_ARCHIVED = 'exclude';
const ARCHIVED = 'only';

/** The parameters of a place to search: everywhere, with or without the archive, or in a folder. */
function within(place: string): Record<string, string> {
  if (place === ANYWHERE) return {};
  if (place === NOT_ARCHIVED || place === ARCHIVED) return { archived: String(place === ARCHIVED) };
  return { folderId: place };
}

export function Found({ words }: { words: string }) {
  const [role, setRole] = useState('');
  const [place, setPlace] = useState(ANYWHERE);
  const folders = useFolders();
  const isFiltered = role !== '' || place !== ANYWHERE;
  const narrowedBy = { q: words, role: role || undefined, ...within(place) };
  const chats = useChats({ q: words }, CHATS_PAGE);
  const messages = usePages<Hit>(['messages', 'search', narrowedBy], '/api/messages/search', {
    limit: MESSAGES_PAGE,
    narrowedBy,
  });
  const { isError, isFetching, fetchNextPage } = chats.reading;
  const hasNextPage = chats.reading.hasNextPage && !isError;
  // A page looks through a part of the conversations, and may find nothing there.
  useEffect(() => {
    if (chats.items.length === 0 && hasNextPage && !isFetching) void fetchNextPage();
  }, [chats.items.length, hasNextPage, isFetching, fetchNextPage]);
  // The filters are the messages' filters.
  const areChatsShown = !isFiltered && (chats.items.length > 0 || isError);
  const isSearching =
    messages.reading.isPending || (!isFiltered && chats.items.length === 0 && (isFetching || hasNextPage));
  const isEmpty = messages.reading.isSuccess && messages.items.length === 0 && !areChatsShown;
  return (
    <>
      <div className="filters" role="group" aria-label={t('Filter messages')}>
        <select
          className="small"
          aria-label={t('Author')}
          value={role}
          onChange={(event) => setRole(event.target.value)}
        >
          <option value="">{t('Any author')}</option>
          <option value="user">{t('You')}</option>
          <option value="assistant">{t('Agents')}</option>
        </select>
        <select
          className="small"
          aria-label={t('Search in')}
          value={place}
          onChange={(event) => setPlace(event.target.value)}
        >
          <option value={ANYWHERE}>{t('All chats')}</option>
          <option value={NOT_ARCHIVED}>{t('Not archived')}</option>
          <option value={ARCHIVED}>{t('Archived')}</option>
          {folders.data && folders.data.length > 0 ? (
            <optgroup label={t('Folders')}>
              {folders.data.map(({ id, name }) => (
                <option key={id} value={id}>
                  {name}
                </option>
              ))}
            </optgroup>
          ) : null}
        </select>
      </div>
      {areChatsShown ? (
        <section aria-label={t('Chats')}>
          <h3>{t('Chats')}</h3>
          {isError ? <Failed reading={chats.reading} /> : null}
          <ChatRows items={chats.items} />
          <More of={chats} label={t('Show more chats')} />
        </section>
      ) : null}
      {messages.reading.isError || messages.items.length > 0 ? (
        <section aria-label={t('Messages')}>
          <h3>{t('Messages')}</h3>
          {messages.reading.isError ? <Failed reading={messages.reading} /> : null}
          <ul>
            {messages.items.map((hit) => (
              <FoundMessage key={hit.messageId} hit={hit} />
            ))}
          </ul>
          <More of={messages} label={t('Show more messages')} />
        </section>
      ) : null}
      <p className="quiet" role="status">
        {isSearching
          ? t('Searching…')
          : isEmpty
            ? isFiltered
              ? t('No messages match “{words}” with these filters.', { words })
              : t('No chats match “{words}”.', { words })
            : ''}
      </p>
    </>
  );
}

function FoundMessage({ hit }: { hit: Hit }) {
  const { stop, actions } = useList();
  const { messageId, conversationId, title, role, createdAt, snippet } = hit;
  return (
    <li className="hit" data-row={messageId} onFocus={() => actions.onFocus(messageId)}>
      <Link
        to="/c/$id"
        params={{ id: conversationId }}
        search={{ message: messageId }}
        tabIndex={messageId === stop ? 0 : -1}
        onClick={() => reveal(messageId)}
      >
        <span dir="auto" className="name">
          {shownTitle({ title, metadata: null })}
        </span>
        <Snippet of={snippet} />
        <span className="quiet">
          {rich(role === 'user' ? 'You, {when}' : 'Agent, {when}', { when: <Ago at={createdAt} /> })}
        </span>
      </Link>
    </li>
  );
}
