// The user's links to shared conversations.
import { Shares } from '../sharing/Shares';

export function SharedChats() {
  return (
    <section>
      <p className="quiet">
        Your links to chats. Anyone with a link can read its chat without signing in, until the link expires or you
        revoke it.
      </p>
      <Shares />
    </section>
  );
}
