-- Loses which text programs have written: answers that are being written are published again when they end.
drop function kb.settle_remote_text(uuid, int, int, boolean);
drop function kb.write_remote_text(uuid, int, int, int, text, text);
drop function kb.discard_remote_text(kb.remote_calls, text);
drop table kb.remote_texts;
alter table kb.remote_calls drop answers, drop writing_step, drop writing_attempt, drop writing_after;
