drop function kb.used_today;
alter table kb.projects drop column runs_per_day, drop column tokens_per_day;
revoke delete on kb.project_members from rejoin_gate;
drop policy gate_forgets on kb.api_keys;
drop policy gate_ends on kb.api_keys;
drop policy gate_begins on kb.api_keys;
drop policy gate_reads on kb.api_keys;
create policy gate on kb.api_keys to rejoin_gate using (true);
revoke insert, delete on kb.api_keys from rejoin_gate;
revoke update (revoked_at) on kb.api_keys from rejoin_gate;
-- A key in a cookie means nothing without what is taken away here.
delete from kb.api_keys where kind = 'session';
alter table kb.api_keys drop constraint api_keys_session, drop column parent_id, drop column kind;
alter table kb.project_members drop column role;
