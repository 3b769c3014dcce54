// The settings of an agent's model, and the limits of a run.
import { message, t } from '../../ui/language';
import type { Draft, Fault } from './draft';
import { Field } from './Field';
import { useModel } from './ModelField';

interface Props {
  draft: Draft;
  fault: Fault | null;
  set: <Key extends keyof Draft>(key: Key) => (value: Draft[Key]) => void;
}

/** All levels, for models that are not in the catalogue. */
const EFFORTS = [
  ...[message('none'), message('minimal'), message('low'), message('medium')],
  ...[message('high'), message('xhigh'), message('max')],
];

interface NumberProps extends Props {
  label: string;
  field: string;
  of: 'temperature' | 'maxTokens' | 'maxSteps' | 'defaultTimeout' | 'maxDepth';
  min: number;
  max?: number;
  step?: number | 'any';
  placeholder: string;
}

function NumberField({ draft, fault, set, label, field, of, min, max, step = 1, placeholder }: NumberProps) {
  return (
    <Field label={label} field={field} fault={fault}>
      {(control) => (
        <input
          {...control}
          type="number"
          min={min}
          max={max}
          step={step}
          value={draft[of]}
          placeholder={placeholder}
          onChange={(event) => set(of)(event.target.value)}
        />
      )}
    </Field>
  );
}

export function ModelSettings(props: Props) {
  const { draft, fault, set } = props;
  const model = useModel(draft.model.trim());
  const known = model?.efforts.length ? model.efforts : EFFORTS;
  const efforts = known.includes(draft.reasoningEffort) ? known : [draft.reasoningEffort, ...known].filter(Boolean);
  const maxTokens = model?.maxOutputTokens ?? undefined;
  return (
    <div className="fields">
      <NumberField
        {...props}
        label={t('Temperature')}
        field="model.temperature"
        of="temperature"
        min={0}
        max={2}
        step="any"
        placeholder={model?.takesTemperature === false ? t('Not supported') : t('Default')}
      />
      <NumberField
        {...props}
        label={t('Maximum output tokens')}
        field="model.maxTokens"
        of="maxTokens"
        min={1}
        max={maxTokens}
        placeholder={maxTokens === undefined ? t('Default') : t('At most {count}', { count: String(maxTokens) })}
      />
      <Field label={t('Reasoning effort')} field="model.reasoningEffort" fault={fault}>
        {(control) => (
          <select
            {...control}
            value={draft.reasoningEffort}
            onChange={(event) => set('reasoningEffort')(event.target.value)}
          >
            <option value="">{t('Default')}</option>
            {efforts.map((effort) => (
              <option key={effort} value={effort}>
                {t(effort)}
              </option>
            ))}
          </select>
        )}
      </Field>
      <Field
        label={t('Fallback models')}
        field="model.fallbackModels"
        fault={fault}
        hint={t('One per line, at most 5, in the order in which they are tried.')}
      >
        {(control) => (
          <textarea
            {...control}
            rows={2}
            spellCheck={false}
            value={draft.fallbackModels}
            onChange={(event) => set('fallbackModels')(event.target.value)}
          />
        )}
      </Field>
      <label>
        <input type="checkbox" checked={draft.orDefault} onChange={(event) => set('orDefault')(event.target.checked)} />{' '}
        {t('Use the default model if the provider has no API key')}
      </label>
    </div>
  );
}

export function Limits(props: Props) {
  return (
    <div className="fields">
      <NumberField
        {...props}
        label={t('Maximum steps')}
        field="maxSteps"
        of="maxSteps"
        min={1}
        placeholder={t('No limit')}
      />
      <NumberField
        {...props}
        label={t('Timeout (seconds)')}
        field="defaultTimeout"
        of="defaultTimeout"
        min={1}
        placeholder="300"
      />
      <NumberField
        {...props}
        label={t('Maximum depth')}
        field="maxDepth"
        of="maxDepth"
        min={0}
        max={2}
        placeholder="2"
      />
    </div>
  );
}
