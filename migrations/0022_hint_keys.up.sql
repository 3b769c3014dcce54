-- Wake-ups carry the events of small commits (docs/decisions/0057-events-in-wake-ups.md). Every role that may connect to the database gets
-- all notifications, so these events are encrypted with a key that only the roles of the product can read.

create table stream.hint_keys (
    -- There is one key. Without it, wake-ups carry no events. Processes read it whenever they begin to listen.
    is_only    boolean primary key default true check (is_only),
    -- AES-256.
    key        bytea not null check (octet_length(key) = 32),
    created_at timestamptz not null default now()
);

-- Two times 122 bits of PostgreSQL's strong random numbers.
insert into stream.hint_keys (key)
values (sha256(convert_to(gen_random_uuid()::text || gen_random_uuid()::text, 'UTF8')));

-- The roles of the product read it.
do $$
begin
    if exists (select from pg_roles where rolname = 'rejoin_app') then
        revoke insert, update, delete on stream.hint_keys from rejoin_app, rejoin_worker;
    end if;
end $$;
