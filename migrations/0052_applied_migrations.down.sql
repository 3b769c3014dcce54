do $$
begin
    if to_regclass('_sqlx_migrations') is not null then
        revoke select on _sqlx_migrations from rejoin_app, rejoin_gate, rejoin_worker;
    end if;
end
$$;
