// Where one writes. Enter sends, Shift+Enter breaks the line; a draft that is refused stays.
import { useQuery } from '@tanstack/react-query';
import { type KeyboardEvent, useEffect, useRef, useState } from 'react';
import { api, type Schemas } from '../api/http';
import { useMe } from '../api/me';

interface Props {
  onSend: (message: string, agentDefinitionId?: string) => Promise<unknown>;
  /** Only while a run is at work. */
  onStop?: (() => Promise<unknown>) | undefined;
  onTell?: ((message: string) => Promise<unknown>) | undefined;
  isBusy?: boolean;
  chooseAgent?: boolean;
}

const MAX_ROWS_PX = 220;
/** The choice that asks no agent. */
const PLAIN = 'plain';

export function Composer({ onSend, onStop, onTell, isBusy = false, chooseAgent = false }: Props) {
  const [words, setWords] = useState('');
  const [agent, setAgent] = useState<string | null>(null);
  const [isSending, setSending] = useState(false);
  const field = useRef<HTMLTextAreaElement>(null);
  useEffect(() => field.current?.focus(), []);
  useEffect(() => {
    const element = field.current;
    if (!element) return;
    element.style.blockSize = 'auto';
    element.style.blockSize = `${Math.min(element.scrollHeight, MAX_ROWS_PX)}px`;
  }, [words]);
  const agents = useAgents(chooseAgent);
  const chosen = agent ?? agents.find((one) => one.isDefault)?.id ?? PLAIN;
  const hand = async (over: (message: string) => Promise<unknown>) => {
    const message = words.trim();
    if (message === '' || isSending) return;
    setSending(true);
    setWords('');
    try {
      await over(message);
    } catch {
      // It was told; nothing that was written is lost.
      setWords((now) => now || message);
    } finally {
      setSending(false);
      field.current?.focus();
    }
  };
  const send = () => hand((message) => onSend(message, chosen === PLAIN ? undefined : chosen));
  const onKeyDown = (event: KeyboardEvent) => {
    if (event.key === 'Enter' && !event.shiftKey && !event.nativeEvent.isComposing) {
      event.preventDefault();
      void send();
    }
    if (event.key === 'Escape' && onStop) void onStop();
  };
  return (
    <form
      className="composer"
      onSubmit={(event) => {
        event.preventDefault();
        void send();
      }}
    >
      <label htmlFor="words" className="hidden">
        Message
      </label>
      <textarea
        id="words"
        ref={field}
        rows={1}
        value={words}
        placeholder={isBusy ? 'Write the next message, or tell the run something' : 'Ask anything'}
        onChange={(event) => setWords(event.target.value)}
        onKeyDown={onKeyDown}
      />
      <div className="controls">
        {chooseAgent && agents.length > 0 ? (
          <select aria-label="Agent" value={chosen} onChange={(event) => setAgent(event.target.value)}>
            <option value={PLAIN}>no agent</option>
            {agents.map((one) => (
              <option key={one.id} value={one.id} title={one.description}>
                {one.name}
              </option>
            ))}
          </select>
        ) : null}
        <span className="fill" />
        {onTell ? (
          <button type="button" disabled={words.trim() === ''} title="The run takes it with its next step" onClick={() => void hand(onTell)}>
            Tell the run
          </button>
        ) : null}
        {onStop ? (
          <button type="button" onClick={() => void onStop().catch(() => {})}>
            Stop
          </button>
        ) : null}
        <button type="submit" className="primary" disabled={words.trim() === '' || isSending}>
          {isBusy ? 'Queue' : 'Send'}
        </button>
      </div>
    </form>
  );
}

function useAgents(isWanted: boolean): Schemas['AgentItem'][] {
  const me = useMe();
  const page = useQuery({
    queryKey: ['agents'],
    queryFn: () => api<Schemas['AgentPage']>(`/api/projects/${me.projectId}/agents?limit=100`),
    enabled: isWanted,
    staleTime: 60_000,
  });
  return page.data?.items ?? [];
}
