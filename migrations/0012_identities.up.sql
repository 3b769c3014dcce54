-- Users who come with tokens of an identity provider (OpenID Connect).
create table kb.identities (
    -- Who vouches for the user, as its tokens name it.
    issuer     text not null,
    -- The user's name there, which never changes and is given to nobody else.
    subject    text not null,
    user_id    uuid not null references kb.users (id) on delete cascade,
    created_at timestamptz not null default now(),
    primary key (issuer, subject),
    -- A handle may be given to somebody else one day: whoever has it then is not the user who had it.
    unique (issuer, user_id)
);
create index identities_user on kb.identities (user_id);

-- A ticket that was made with a token has no key; it opens nothing once the token has expired.
alter table kb.stream_tickets
    alter column key_id drop not null,
    add column token_expires_at timestamptz,
    add constraint stream_tickets_credential check ((key_id is null) = (token_expires_at is not null));
