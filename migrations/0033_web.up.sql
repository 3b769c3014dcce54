-- What agents may do on the web (docs/WEB_TOOLS.md): nothing in a project that has no row here.

create table kb.web_settings (
    project_id      uuid primary key references kb.projects (id) on delete cascade,
    -- Who searches; null: nobody, there is no web_search.
    provider        text check (provider in ('tavily', 'brave', 'searxng')),
    -- Where it is asked; null: at its own address.
    base_url        text,
    -- The secret of the project that holds its key; null: it takes none.
    key_secret      text,
    -- Whether there is web_visit.
    visit           boolean not null default false,
    -- The only domains that are visited and found, with all below them; empty: all.
    allowed_domains text[] not null default '{}',
    -- Domains that are neither, with all below them.
    blocked_domains text[] not null default '{}',
    updated_at      timestamptz not null default now(),
    check (base_url is null or provider is not null),
    check (key_secret is null or provider is not null),
    check (provider is not null or visit)
);

-- Pages as they were visited: shown again while they are fresh, and asked for with their validators afterwards.
create table kb.web_pages (
    project_id    uuid not null references kb.projects (id) on delete cascade,
    -- Of the URL as it was asked for, with how it was read.
    url_hash      bytea not null check (octet_length(url_hash) = 32),
    final_url     text not null,
    title         text,
    content       text not null,
    content_type  text not null,
    etag          text,
    last_modified text,
    fetched_at    timestamptz not null default now(),
    primary key (project_id, url_hash)
);
create index web_pages_age on kb.web_pages (fetched_at);
create index web_pages_of_project on kb.web_pages (project_id, fetched_at);

grant select, insert, update, delete on kb.web_settings to rejoin_app;
grant select on kb.web_settings to rejoin_worker;
-- Only workers visit.
grant select, insert, update, delete on kb.web_pages to rejoin_worker;

alter table kb.web_settings enable row level security;
create policy app on kb.web_settings to rejoin_app using (project_id = kb.current_project());
create policy worker on kb.web_settings to rejoin_worker using (true);
alter table kb.web_pages enable row level security;
create policy worker on kb.web_pages to rejoin_worker using (true);
