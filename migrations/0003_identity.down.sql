-- Loses projects, users, members, API keys and sessions.
drop function kb.key_used(uuid), kb.member_role(uuid, uuid);
drop table kb.sign_in_codes, kb.stream_tickets, kb.identities, kb.api_keys, kb.project_members, kb.users, kb.projects;
drop function kb.current_project(), kb.current_owner();
drop schema kb;

-- What is granted to them in other schemas goes with the roles.
drop owned by rejoin_app, rejoin_gate, rejoin_worker;

-- Another database of this server may still have them, and they may be an administrator's.
do $$
begin
    drop role rejoin_app, rejoin_gate, rejoin_worker;
exception
    when dependent_objects_still_exist or object_in_use or insufficient_privilege then null;
end
$$;
