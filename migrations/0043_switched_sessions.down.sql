-- Loses which sessions may go on in another project. Those that did stay where they are.
drop function kb.switch_session(uuid, uuid);
alter table kb.api_keys drop column scopes_anywhere;
