// Drags cards between columns by Pragmatic drag and drop. It builds on the browser's own drags, so a card is also dragged on touch screens, after a
// long press. It inserts no style elements: it sets styles from scripts, which the content security policy allows.
import { draggable, dropTargetForElements } from '@atlaskit/pragmatic-drag-and-drop/adapter/element-adapter';
import { type RefObject, useEffect, useEffectEvent, useState } from 'react';
import type { Entity, TaskState } from './board';

/** Makes a card draggable; whether it is being dragged. */
export function useDraggable(card: RefObject<HTMLElement | null>, task: Entity, isEnabled: boolean): boolean {
  const [isDragged, setDragged] = useState(false);
  const dragged = useEffectEvent(() => task);
  useEffect(() => {
    if (!card.current || !isEnabled) return;
    return draggable({
      element: card.current,
      getInitialData: () => ({ task: dragged() }),
      getInitialDataForExternal: () => ({ 'text/plain': dragged().name }),
      onDragStart: () => setDragged(true),
      onDrop: () => setDragged(false),
    });
  }, [card, isEnabled]);
  return isDragged;
}

/** Lets cards of other columns be dropped on a column; whether one is above it. */
export function useDropTarget(
  column: RefObject<HTMLElement | null>,
  state: TaskState,
  onDropped: (task: Entity) => void,
): boolean {
  const [isOver, setOver] = useState(false);
  const dropped = useEffectEvent(onDropped);
  useEffect(() => {
    if (!column.current) return;
    return dropTargetForElements({
      element: column.current,
      canDrop: ({ source }) => taskOf(source.data) !== null && taskOf(source.data)?.stateKey !== state,
      onDragEnter: () => setOver(true),
      onDragLeave: () => setOver(false),
      onDrop: ({ source }) => {
        setOver(false);
        const task = taskOf(source.data);
        if (task) dropped(task);
      },
    });
  }, [column, state]);
  return isOver;
}

/** The task of a card; null: something else is dragged. */
function taskOf({ task }: Record<string, unknown>): Entity | null {
  return (task as Entity | undefined) ?? null;
}
