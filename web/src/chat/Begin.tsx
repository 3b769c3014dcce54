// The start page: the field for the first message of a new chat. It is in the script that the page loads first; what shows a conversation is
// loaded once this is drawn.
import { useNavigate } from '@tanstack/react-router';
import { useEffect } from 'react';
import { t } from '../ui/language';
import { useTitle } from '../ui/title';
import { toastError } from '../ui/toasts';
import { whenIdle } from '../ui/whenIdle';
import { type Chosen, Composer } from './Composer';
import { keepModel } from './chosenModel';
import { outbox } from './outbox';
import { conversationOf, newPlace } from './places';
import { Starters } from './Starters';
import type { StoredFile } from './uploads';

/** The name of its draft. */
const DRAFT = 'new';

/** The first words of a conversation that is not there yet. `preload`: loads the view of the conversation that it becomes. */
export function Begin({ preload }: { preload: () => Promise<unknown> }) {
  const navigate = useNavigate();
  useTitle(t('New chat'));
  useEffect(() => whenIdle(() => void preload()), [preload]);
  const send = (
    message: string,
    attachments: readonly StoredFile[] = [],
    { agentDefinitionId, model }: Chosen = {},
  ) => {
    const place = newPlace();
    const sent = outbox.add({ place, message, attachments, agentDefinitionId, model });
    keepModel(place, model);
    keepModel(DRAFT, undefined);
    if (sent === null) {
      void navigate({ to: '/new/$place', params: { place } });
      return null;
    }
    // Without a place for it in the browser it stays in the field until the server has it.
    return sent.then(() => navigate({ to: '/c/$id', params: { id: conversationOf(place) ?? '' } }));
  };
  return (
    <main id="main" className="talk empty">
      <div className="hello">
        <h1>{t('What would you like to know?')}</h1>
        <p className="quiet">{t('Leave any time. Answers keep running and wait for you here.')}</p>
      </div>
      <Composer draft={DRAFT} chooseAgent onSend={send} />
      <Starters onChoose={(question) => void send(question)?.catch(toastError)} />
    </main>
  );
}
