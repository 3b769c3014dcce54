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

-- pgvector has an index of near vectors. Where the server has none, or its owner may not create it, search compares signs.
do $$
begin
    create extension if not exists vector with schema public;
exception
    when insufficient_privilege or undefined_file or feature_not_supported or unique_violation then
        raise notice 'pgvector is not there: search by meaning looks at all vectors of a project';
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
    -- The object's name for programs, unique in its type while it lives; the object's id where no key was given.
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
    -- chat, ui, api, … : what the writer called itself. This and change_id are set for a transaction (`set local`), so that the code that writes
    -- versions in it need not know; null where they are not set.
    change_source  text default nullif(current_setting('rejoin.change_source', true), ''),
    -- The record of the tool call that wrote it: a call that is repeated after a crash finds that it has been done.
    change_id      uuid default nullif(current_setting('rejoin.change_id', true), '')::uuid,
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

-- source_id and target_id are canonical ids. They are no foreign keys on purpose: they would cost two look-ups a row in an
-- import and a scan a row when a project is deleted; writers and imports check that both ends are in the project.
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
    -- As in kb.graph_objects.
    change_source  text default nullif(current_setting('rejoin.change_source', true), ''),
    change_id      uuid default nullif(current_setting('rejoin.change_id', true), '')::uuid,
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

-- No row-level security on the graph: queries filter by project.
grant select, insert, update, delete on kb.graph_objects, kb.graph_relationships to rejoin_app, rejoin_worker;

-- An import of many rows leaves the planner without statistics; only the owner of the tables may make them.
create function kb.analyze_graph() returns void
language plpgsql security definer set search_path = pg_catalog, pg_temp as $$
begin
    analyze kb.graph_objects, kb.graph_relationships;
end
$$;

-- Template packs: which types of objects and relationships a project's graph is made of, and what their properties must be.
create table kb.template_packs (
    id                   uuid primary key,
    -- Whose pack it is; null: it came with the product, and everybody may install it.
    project_id           uuid references kb.projects (id) on delete cascade,
    name                 text not null check (name <> ''),
    version              text not null check (version <> ''),
    description          text not null default '',
    author               text not null default '',
    status               text not null default 'published' check (status in ('draft', 'published', 'deprecated')),
    -- By type: a JSON Schema of the properties, and what else is to be known of the type.
    object_types         jsonb not null default '{}' check (jsonb_typeof(object_types) = 'object'),
    -- By type: which types of objects it connects (from, to), and a JSON Schema of its properties.
    relationship_types   jsonb not null default '{}' check (jsonb_typeof(relationship_types) = 'object'),
    -- For user interfaces: how things of a type are shown.
    ui                   jsonb not null default '{}' check (jsonb_typeof(ui) = 'object'),
    -- For models: how things of a type are found in texts.
    prompts              jsonb not null default '{}' check (jsonb_typeof(prompts) = 'object'),
    -- SHA-256 of types, ui and prompts: the same pack has the same, wherever it came from.
    checksum             text not null,
    created_at           timestamptz not null default now(),
    -- Packs of the product share one name space.
    owner                uuid not null generated always as (coalesce(project_id, '00000000-0000-0000-0000-000000000000'::uuid)) stored,
    unique (owner, name, version)
);
comment on table kb.template_packs is 'Sets of types for the graph; a pack that is published does not change any more';

create table kb.template_assignments (
    id             uuid primary key,
    project_id     uuid not null references kb.projects (id) on delete cascade,
    pack_id        uuid not null references kb.template_packs (id),
    -- Types that count; null: all of the pack.
    enabled_types  text[],
    -- Of those, types that don't.
    disabled_types text[] not null default '{}',
    -- Switched off: its schemas hold nobody any more.
    active         boolean not null default true,
    created_at     timestamptz not null default now(),
    updated_at     timestamptz not null default now(),
    unique (project_id, pack_id)
);
comment on table kb.template_assignments is 'Packs that a project has installed';
create index template_assignments_pack on kb.template_assignments (pack_id);

-- No row-level security, like the graph: a write that did not see what is installed would be checked against nothing.
grant select, insert, update, delete on kb.template_packs, kb.template_assignments to rejoin_app, rejoin_worker;

-- Vectors of the graph's objects, for search by meaning. Workers make them in the background; an object that has none yet is found by its
-- words.
create table kb.graph_embeddings (
    project_id   uuid not null references kb.projects (id) on delete cascade,
    -- The object, whatever its version: superseded ones have no vector.
    canonical_id uuid not null,
    -- The model that made the vector: vectors of different models don't compare.
    model        text not null check (model <> ''),
    dimensions   integer not null check (dimensions between 1 and 4000),
    -- content_hash of the version that it was made of.
    content_hash bytea not null,
    -- One bit a dimension, its number's sign: near vectors differ in few, and that can be counted quickly.
    signs        bit varying not null,
    embedded_at  timestamptz not null default now(),
    -- All that a search by signs needs is in the index.
    primary key (project_id, model, canonical_id) include (dimensions, signs)
);
comment on table kb.graph_embeddings is 'Vectors of live objects, one a model';
-- A process that keeps a project's signs asks for those that came since.
create index graph_embeddings_new on kb.graph_embeddings (project_id, model, embedded_at);

-- The vector itself, of length 1. Both types take and give real[]; halfvec has half the size, and an index.
do $$
declare
    v_dimensions integer;
begin
    if to_regtype('halfvec') is null then
        alter table kb.graph_embeddings add column vector real[] not null;
        return;
    end if;
    alter table kb.graph_embeddings add column vector halfvec not null;
    -- An index has one size. Those of the usual models; of other sizes, signs are compared.
    foreach v_dimensions in array array[384, 768, 1024, 1536] loop
        execute format(
            'create index graph_embeddings_near_%1$s on kb.graph_embeddings
                 using hnsw ((vector::halfvec(%1$s)) halfvec_cosine_ops) where dimensions = %1$s', v_dimensions);
    end loop;
end
$$;

-- Objects whose vectors are to be made, made again, or removed. A list and no queue: jobs take what is on it.
create table kb.graph_embedding_marks (
    id           bigint generated always as identity primary key,
    project_id   uuid not null references kb.projects (id) on delete cascade,
    -- Null: any of the project's objects; an import changed too many to name them.
    canonical_id uuid
);
comment on table kb.graph_embedding_marks is 'Objects that changed since their vectors were made';
create index graph_embedding_marks_project on kb.graph_embedding_marks (project_id, id);
grant select, insert, update, delete on kb.graph_embeddings, kb.graph_embedding_marks to rejoin_app, rejoin_worker;

-- Every new version marks its object, whatever writes it. Nothing here can wait for another transaction: marks have no key but their number.
create function kb.mark_graph_object() returns trigger
language plpgsql as $$
begin
    insert into kb.graph_embedding_marks (project_id, canonical_id) values (new.project_id, new.canonical_id);
    return null;
end
$$;
-- Writers of many rows say so (set local rejoin.bulk = on), and mark the project at the end.
create trigger graph_objects_mark after insert on kb.graph_objects
    for each row when (current_setting('rejoin.bulk', true) is distinct from 'on')
    execute function kb.mark_graph_object();

-- The words that objects' keys and names consist of, each once a project: what a word with a typing error is looked up in. There are far
-- fewer of them than objects, so that trigrams find the nearest ones in milliseconds however great the graph is
-- (docs/decisions/0018-vocabulary.md).
create table kb.graph_words (
    project_id uuid not null references kb.projects (id) on delete cascade,
    -- A lexeme as full text search has it.
    word       text not null
);
comment on table kb.graph_words is 'Words of keys and names; some may be of objects that are gone';
-- Not unique: writers of the same new word would wait for each other. Those that race leave it twice, which does no harm.
create index graph_words_word on kb.graph_words (project_id, word);
grant select, insert, delete on kb.graph_words to rejoin_app, rejoin_worker;

do $$
begin
    if exists (select from pg_opclass where opcname = 'gin_trgm_ops' and pg_opclass_is_visible(oid)) then
        create index graph_objects_live_trigrams on kb.graph_objects using gin ((key || ' ' || name) gin_trgm_ops)
            where superseded_at is null and deleted_at is null;
        create index graph_words_trigrams on kb.graph_words using gin (word gin_trgm_ops);
    end if;
end
$$;

-- The words of a key and a name whose typing errors are worth correcting. Codes (numbers, ids: no more letters than digits) are not: what is
-- near one is another one. They would be most of the list, too.
create function kb.words_of(p_names text) returns setof text
language sql immutable parallel safe as $$
    select lexeme
    from unnest(tsvector_to_array(to_tsvector('simple', p_names))) as lexeme
    where length(lexeme) between 3 and 64 and 2 * length(translate(lexeme, '0123456789', '')) > length(lexeme)
$$;

-- Set by set, so that an import learns its words in one statement. Reads and adds, and waits for no other transaction.
create function kb.learn_graph_words() returns trigger
language plpgsql as $$
begin
    insert into kb.graph_words (project_id, word)
    select w.project_id, w.word
    from (
        select distinct o.project_id, words.word
        from written o
        -- An object without a key has its id for one.
        cross join lateral kb.words_of(
            concat_ws(' ', nullif(o.key, o.canonical_id::text), nullif(o.name, o.key))) as words (word)
        where o.deleted_at is null
    ) w
    where not exists (select from kb.graph_words known where known.project_id = w.project_id and known.word = w.word)
    order by w.project_id, w.word;
    return null;
end
$$;
create trigger graph_objects_words after insert on kb.graph_objects
    referencing new table as written
    for each statement execute function kb.learn_graph_words();

-- What the model is told of a project in focus, made before it is needed.
create table kb.chat_context_cache (
    project_id uuid not null references kb.projects (id) on delete cascade,
    -- The project in focus, and the thing in it; the nil uuid: none.
    focus_id   uuid not null,
    entity_id  uuid not null,
    -- The project and the thing; what is linked to the project.
    location   text not null,
    linked     text not null,
    -- Taken before they were read: what it does not see may be missing from them.
    snapshot   pg_snapshot not null,
    created_at timestamptz not null default now(),
    primary key (project_id, focus_id, entity_id)
);
grant select, insert, update, delete on kb.chat_context_cache to rejoin_app, rejoin_worker;
alter table kb.chat_context_cache enable row level security;
create policy app on kb.chat_context_cache to rejoin_app using (project_id = kb.current_project());
create policy worker on kb.chat_context_cache to rejoin_worker using (true);

-- Transactions that changed a project's graph, so that nothing old is told from the cache. Appended only: writers don't wait for each other.
create table kb.graph_changes (
    project_id uuid not null,
    xid        xid8 not null default pg_current_xact_id(),
    at         timestamptz not null default now()
);
create index graph_changes_project on kb.graph_changes (project_id);
create index graph_changes_at on kb.graph_changes (at);
grant select on kb.graph_changes to rejoin_app;
grant select, delete on kb.graph_changes to rejoin_worker;
alter table kb.graph_changes enable row level security;
create policy app on kb.graph_changes for select to rejoin_app using (project_id = kb.current_project());
create policy worker on kb.graph_changes to rejoin_worker using (true);

create function kb.note_graph_change() returns trigger
language plpgsql security definer set search_path = pg_catalog, pg_temp as $$
begin
    if tg_op = 'DELETE' then
        insert into kb.graph_changes (project_id) select distinct project_id from old_rows;
    else
        insert into kb.graph_changes (project_id) select distinct project_id from new_rows;
    end if;
    return null;
end $$;
revoke all on function kb.note_graph_change from public;

create trigger note_inserts after insert on kb.graph_objects
    referencing new table as new_rows for each statement execute function kb.note_graph_change();
create trigger note_updates after update on kb.graph_objects
    referencing new table as new_rows for each statement execute function kb.note_graph_change();
create trigger note_deletes after delete on kb.graph_objects
    referencing old table as old_rows for each statement execute function kb.note_graph_change();
create trigger note_inserts after insert on kb.graph_relationships
    referencing new table as new_rows for each statement execute function kb.note_graph_change();
create trigger note_updates after update on kb.graph_relationships
    referencing new table as new_rows for each statement execute function kb.note_graph_change();
create trigger note_deletes after delete on kb.graph_relationships
    referencing old table as old_rows for each statement execute function kb.note_graph_change();
