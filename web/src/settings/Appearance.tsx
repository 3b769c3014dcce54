// How the app looks in this browser, and whether it notifies the user.
import { Contrast, Keyboard } from 'lucide-react';
import { type Notifications, switchOff, switchOn, useNotifications } from '../chat/notifications';
import { openDialog } from '../shell/frame';
import { chooseLanguage, LANGUAGES, language, t } from '../ui/language';
import { CONTRASTS, setLook, THEMES, useLook } from '../ui/theme';

export function Appearance() {
  const { theme, contrast } = useLook();
  return (
    <section className="appearance">
      <p className="quiet">{t('Stored in this browser, for all who use it.')}</p>
      <Languages />
      <Choice label={t('Theme')} options={THEMES} value={theme} onChange={(theme) => setLook({ theme })} />
      <Choice
        label={t('Contrast')}
        options={CONTRASTS}
        value={contrast}
        onChange={(contrast) => setLook({ contrast })}
      />
      <p className="quiet">
        <Contrast className="icon" /> {t('“System” follows the settings of your device.')}
      </p>
      <Notify />
      <button type="button" onClick={() => openDialog('keys')}>
        <Keyboard className="icon" /> {t('Keyboard shortcuts')}
      </button>
    </section>
  );
}

/** Buttons: with radio buttons an arrow key would load the page again at each language. Each has its own name. */
function Languages() {
  return (
    <fieldset className="segments">
      <legend>{t('Language')}</legend>
      {LANGUAGES.map(([code, name]) => (
        <button key={code} type="button" aria-pressed={code === language} onClick={() => chooseLanguage(code)}>
          <bdi lang={code}>{name}</bdi>
        </button>
      ))}
    </fieldset>
  );
}

const NOTIFY_NOTES: Partial<Record<Notifications, string>> = {
  unavailable: t('This browser does not support notifications on this page.'),
  blocked: t(
    'The browser blocks notifications of this site. Allow them in the settings of the site, then reload the page.',
  ),
};

function Notify() {
  const notifications = useNotifications();
  const note = NOTIFY_NOTES[notifications];
  return (
    <fieldset className="segments">
      <legend>{t('Notifications')}</legend>
      <label>
        <input
          type="checkbox"
          checked={notifications === 'on'}
          disabled={note !== undefined}
          onChange={(event) => (event.target.checked ? void switchOn() : switchOff())}
        />{' '}
        {t('Notify me when an answer ends while its tab is hidden')}
      </label>
      {note ? <p className="note quiet">{note}</p> : null}
    </fieldset>
  );
}

function Choice<Value extends string>(props: {
  label: string;
  options: readonly (readonly [Value, string])[];
  value: Value;
  onChange: (value: Value) => void;
}) {
  const { label, options, value, onChange } = props;
  return (
    <fieldset className="segments">
      <legend>{label}</legend>
      {options.map(([name, shown]) => (
        <label key={name}>
          <input type="radio" name={label} checked={name === value} onChange={() => onChange(name)} /> {shown}
        </label>
      ))}
    </fieldset>
  );
}
