// Stores the model that the user has chosen for the answers of a chat, across view changes and reloads.
import { useCallback, useEffect, useState } from 'react';
import * as localStore from '../api/localStore';

const KEPT = 'model.';

function read(name: string): string | undefined {
  const kept = localStore.read(KEPT + name);
  return typeof kept === 'string' ? kept : undefined;
}

/** undefined: the agent's model. */
export function keepModel(name: string, model: string | undefined): void {
  if (model === undefined) localStore.remove(KEPT + name);
  else localStore.write(KEPT + name, model);
}

export function moveModel(from: string, to: string): void {
  keepModel(to, read(from));
  keepModel(from, undefined);
}

/** The model of a place, and how to choose another one. */
export function useChosenModel(name: string): [string | undefined, (model: string | undefined) => void] {
  const [model, setModel] = useState(() => read(name));
  useEffect(() => setModel(read(name)), [name]);
  const choose = useCallback(
    (chosen: string | undefined) => {
      keepModel(name, chosen);
      setModel(chosen);
    },
    [name],
  );
  return [model, choose];
}
