// The user's links to shared conversations.
import { Shares } from '../sharing/Shares';
import { t } from '../ui/language';

export function SharedChats() {
  return (
    <section>
      <p className="quiet">
        {t('Your links to chats.')}{' '}
        {t('Anyone with a link can read its chat without signing in, until the link expires or you revoke it.')}
      </p>
      <Shares />
    </section>
  );
}
