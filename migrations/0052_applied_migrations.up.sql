-- API and workers look at the list of applied migrations when they start. Those that log in as members of their own role alone may, too.
-- (A schema that was made without `rejoin migrate` has no such list.)
do $$
begin
    if to_regclass('_sqlx_migrations') is not null then
        grant select on _sqlx_migrations to rejoin_app, rejoin_gate, rejoin_worker;
    end if;
end
$$;
