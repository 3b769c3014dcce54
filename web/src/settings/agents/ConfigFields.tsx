// Fields for the known settings of a definition's `config`.
import { t } from '../../ui/language';
import { type ConfigDraft, type Setting, settingsInJson } from './config';
import type { Fault } from './draft';
import { Field } from './Field';

interface Props {
  settings: readonly Setting[];
  config: ConfigDraft;
  flowType: string;
  fault: Fault | null;
  onChange: (config: ConfigDraft) => void;
}

/** Whether a setting has a field: its flow is chosen, or it has a value. */
export function isShown({ flows, path }: Setting, flowType: string, config: ConfigDraft): boolean {
  return flows === undefined || flows.includes(flowType) || (config.settings[path] ?? '') !== '';
}

export function ConfigFields({ settings, config, flowType, fault, onChange }: Props) {
  const inJson = settingsInJson(config);
  const shown = settings.filter((setting) => isShown(setting, flowType, config));
  if (shown.length === 0) return null;
  return (
    <div className="fields">
      {shown.map((setting) => (
        <Field
          key={setting.path}
          label={setting.label}
          field={`config.${setting.path}`}
          fault={fault}
          hint={inJson.has(setting.path) ? t('Set in the JSON below.') : setting.hint}
        >
          {(control) => {
            const { kind, path, min, max, choices = [] } = setting;
            const common = {
              ...control,
              value: config.settings[path] ?? '',
              disabled: inJson.has(path),
              onChange: ({ target }: { target: { value: string } }) =>
                onChange({ ...config, settings: { ...config.settings, [path]: target.value } }),
            };
            if (kind === 'lines') return <textarea {...common} rows={3} />;
            if (kind === 'choice')
              return (
                <select {...common} value={common.value || choices[0]?.[0]}>
                  {choices.map(([name, label]) => (
                    <option key={name} value={name}>
                      {label}
                    </option>
                  ))}
                </select>
              );
            if (kind === 'text') return <input {...common} placeholder={setting.placeholder} />;
            return (
              <input
                {...common}
                type="number"
                min={min}
                max={max}
                step={kind === 'integer' ? 1 : 'any'}
                placeholder={setting.placeholder}
              />
            );
          }}
        </Field>
      ))}
    </div>
  );
}
