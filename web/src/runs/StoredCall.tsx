// A stored tool call of a run, with its input and its output or error.
import type { Schemas } from '../api/http';
import { t } from '../ui/language';
import { Payload } from '../ui/parts';
import { Full } from './Full';

type ToolCall = Schemas['ToolCallDetail'];

/** `path`: of its run. */
export function StoredCall({ path, id }: { path: string; id: string }) {
  return (
    <Full<ToolCall> queryKey={['call', id]} path={`${path}/tool-calls/${id}`} isOpen={(call) => !isOver(call)}>
      {(call) => (
        <>
          <h4>{t('Arguments')}</h4>
          <Payload value={call.input} />
          <Outcome call={call} />
        </>
      )}
    </Full>
  );
}

function Outcome({ call }: { call: ToolCall }) {
  if (!isOver(call)) return <p className="quiet">{t('No result yet.')}</p>;
  return (
    <>
      <h4>{call.error ? t('Error') : t('Result')}</h4>
      {call.error ? <p className="note bad">{call.error}</p> : <Payload value={call.output} />}
    </>
  );
}

function isOver({ status }: ToolCall): boolean {
  return status !== 'pending' && status !== 'running';
}
