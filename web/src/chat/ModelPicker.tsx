// The model of the next answers: the agent's own, until the user chooses another one.
import { ChevronDown } from 'lucide-react';
import { useState } from 'react';
import { createPortal } from 'react-dom';
import { useMe } from '../api/me';
import { Dialog } from '../ui/Dialog';
import { t } from '../ui/language';
import { lazyPart } from '../ui/lazyView';

const Choices = lazyPart(async () => (await import('./Choices')).Choices, t('the models'));

interface Props {
  /** undefined: the agent's. */
  model: string | undefined;
  onChoose: (model: string | undefined) => void;
}

export function ModelPicker({ model, onChoose }: Props) {
  const { mayChooseModels } = useMe();
  const [isChoosing, setChoosing] = useState(false);
  if (!mayChooseModels) return null;
  const choose = (chosen: string | undefined) => {
    onChoose(chosen);
    setChoosing(false);
  };
  return (
    <>
      <button
        type="button"
        className="small plain model"
        aria-haspopup="dialog"
        aria-label={model === undefined ? t('Model: the agent’s') : t('Model: {model}', { model })}
        onClick={() => setChoosing(true)}
      >
        <span className="name">{model === undefined ? t('Model') : shortOf(model)}</span>
        <ChevronDown className="icon" />
      </button>
      {isChoosing
        ? createPortal(
            // Not within the form of the message: Enter would send it.
            <Dialog title={t('Model of the next answers')} onClose={() => setChoosing(false)}>
              {model === undefined ? null : (
                <button type="button" onClick={() => choose(undefined)}>
                  {t('Use the agent’s model')}
                </button>
              )}
              <Choices chosen={model} onChoose={({ model }) => choose(model ?? undefined)} />
            </Dialog>,
            document.body,
          )
        : null}
    </>
  );
}

/** The name without its provider. */
function shortOf(model: string): string {
  return model.slice(model.indexOf(':') + 1);
}
