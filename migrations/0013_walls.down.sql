-- The policies go with the roles that they are for.
drop owned by rejoin_app, rejoin_gate, rejoin_worker;

do $$
declare
    name text;
begin
    for name in select format('%I.%I', n.nspname, c.relname)
                from pg_class c join pg_namespace n on n.oid = c.relnamespace
                where n.nspname = 'kb' and c.relrowsecurity
    loop
        execute format('alter table %s disable row level security', name);
    end loop;
end
$$;

drop function kb.current_project(), kb.current_owner(), kb.analyze_graph();

-- Another database of this server may still have them, and they may be an administrator's.
do $$
begin
    drop role rejoin_app, rejoin_gate, rejoin_worker;
exception
    when dependent_objects_still_exist or object_in_use or insufficient_privilege then null;
end
$$;
