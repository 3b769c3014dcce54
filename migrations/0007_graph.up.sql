-- The knowledge graph. Every edit is a new row; the head (superseded_at is null) is what queries show.

-- Trigrams find typing errors and partial names. Where the server has no pg_trgm, or its owner may not create it, search
-- works on whole words only: the graph must not stop an installation.
do $$
begin
    create extension if not exists pg_trgm with schema public;
exception
    when insufficient_privilege or undefined_file or feature_not_supported or unique_violation then
        raise notice 'pg_trgm is not there: graph search finds whole words only';
end
$$;

create table kb.graph_objects (
    -- One version. The first version's id is the object's id for ever.
    id             uuid primary key,
    project_id     uuid not null references kb.projects (id) on delete cascade,
    -- The object's id: that of its first version. Everything outside this table refers to it.
    canonical_id   uuid not null,
    -- 1, 2, 3 … of its canonical_id.
    version        integer not null check (version >= 1),
    -- What the object is, e.g. Package. Never changes.
    type           text not null check (type <> ''),
    -- The object's name for programs, unique in its type while it lives; the object's id where nobody gave one.
    key            text not null check (key <> ''),
    status         text,
    labels         text[] not null default '{}',
    properties     jsonb not null default '{}' check (jsonb_typeof(properties) = 'object'),
    -- The object's name for people.
    name           text not null generated always as (
                       coalesce(nullif(properties ->> 'name', ''), nullif(properties ->> 'title', ''), key)
                   ) stored,
    -- In words: what this version changed.
    change_summary text,
    -- SHA-256 of type, key, status, labels and properties: an import leaves equal content alone.
    content_hash   bytea not null,
    -- The version of the type's schema that the properties followed, where there was one.
    schema_version text,
    -- Who wrote this version: user, agent, import, system.
    actor_type     text not null check (actor_type in ('user', 'agent', 'import', 'system')),
    actor_id       uuid,
    -- When the object's first version was written.
    created_at     timestamptz not null default now(),
    -- When this version was written.
    updated_at     timestamptz not null default now(),
    -- Set in the version that deletes the object; a later version without it restores the object.
    deleted_at     timestamptz,
    -- Set when a later version took this one's place.
    superseded_at  timestamptz,
    -- What full text search reads: key A, type B, values of properties C. 'simple': names are not words of a language.
    fts            tsvector not null generated always as (
                       setweight(to_tsvector('simple'::regconfig, key), 'A')
                       || setweight(to_tsvector('simple'::regconfig, type), 'B')
                       || setweight(jsonb_to_tsvector('simple'::regconfig, properties, '["string", "numeric"]'), 'C')
                   ) stored,
    unique (canonical_id, version)
);
comment on table kb.graph_objects is 'Objects of the knowledge graph, one row a version';

create unique index graph_objects_head on kb.graph_objects (canonical_id) where superseded_at is null;
create unique index graph_objects_live_key on kb.graph_objects (project_id, type, key)
    where superseded_at is null and deleted_at is null;
-- Lists of a type, and of a project, in the order of creation.
create index graph_objects_live_type on kb.graph_objects (project_id, type, canonical_id)
    where superseded_at is null and deleted_at is null;
create index graph_objects_live on kb.graph_objects (project_id, canonical_id)
    where superseded_at is null and deleted_at is null;
-- People and models call things by key or name, in any case.
create index graph_objects_live_lower_key on kb.graph_objects (project_id, lower(key))
    where superseded_at is null and deleted_at is null;
create index graph_objects_live_lower_name on kb.graph_objects (project_id, lower(name))
    where superseded_at is null and deleted_at is null;
create index graph_objects_live_fts on kb.graph_objects using gin (fts)
    where superseded_at is null and deleted_at is null;
create index graph_objects_live_labels on kb.graph_objects using gin (labels)
    where superseded_at is null and deleted_at is null;

do $$
begin
    if exists (select from pg_opclass where opcname = 'gin_trgm_ops' and pg_opclass_is_visible(oid)) then
        create index graph_objects_live_trigrams on kb.graph_objects using gin ((key || ' ' || name) gin_trgm_ops)
            where superseded_at is null and deleted_at is null;
    end if;
end
$$;

-- source_id and target_id are canonical ids. They are no foreign keys on purpose: they would cost two look-ups a row in an
-- import and a scan a row when a project goes; `graph::relationships` and `graph::import` check both ends in the project.
create table kb.graph_relationships (
    -- One version. The first version's id is the relationship's id for ever.
    id             uuid primary key,
    project_id     uuid not null references kb.projects (id) on delete cascade,
    canonical_id   uuid not null,
    version        integer not null check (version >= 1),
    -- What the relationship says, e.g. DEPENDS_ON, read from source to target.
    type           text not null check (type <> ''),
    source_id      uuid not null,
    target_id      uuid not null,
    properties     jsonb not null default '{}' check (jsonb_typeof(properties) = 'object'),
    -- How strong the relationship is, where that means something.
    weight         double precision,
    -- When what it says was true, where that is known.
    valid_from     timestamptz,
    valid_to       timestamptz,
    -- SHA-256 of properties, weight and validity: an import leaves equal content alone.
    content_hash   bytea not null,
    change_summary text,
    -- Who wrote this version: user, agent, import, system.
    actor_type     text not null check (actor_type in ('user', 'agent', 'import', 'system')),
    actor_id       uuid,
    created_at     timestamptz not null default now(),
    updated_at     timestamptz not null default now(),
    deleted_at     timestamptz,
    superseded_at  timestamptz,
    unique (canonical_id, version)
);
comment on table kb.graph_relationships is 'Directed relationships between objects, one row a version';

create unique index graph_relationships_head on kb.graph_relationships (canonical_id) where superseded_at is null;
-- One live relationship of a type between two objects; also finds what leaves an object.
create unique index graph_relationships_live_source on kb.graph_relationships (project_id, source_id, type, target_id)
    where superseded_at is null and deleted_at is null;
create index graph_relationships_live_target on kb.graph_relationships (project_id, target_id, type)
    where superseded_at is null and deleted_at is null;
create index graph_relationships_live_type on kb.graph_relationships (project_id, type, canonical_id)
    where superseded_at is null and deleted_at is null;
create index graph_relationships_live on kb.graph_relationships (project_id, canonical_id)
    where superseded_at is null and deleted_at is null;
