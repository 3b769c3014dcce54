drop function kb.key_used;
drop policy gate_revokes on kb.api_keys;
drop policy gate_makes on kb.api_keys;
drop index kb.api_keys_project;
alter table kb.api_keys drop column last_used_at, drop column made_by;
