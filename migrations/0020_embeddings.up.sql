-- Vectors of the graph's objects, for search by meaning. They are made in the background (worker/src/embedding.rs); whatever has none
-- yet is found by its words.

-- pgvector has an index of near vectors. Where the server has none, or its owner may not create it, search compares signs.
do $$
begin
    create extension if not exists vector with schema public;
exception
    when insufficient_privilege or undefined_file or feature_not_supported or unique_violation then
        raise notice 'pgvector is not there: search by meaning looks at all vectors of a project';
end
$$;

create table kb.graph_embeddings (
    project_id   uuid not null references kb.projects (id) on delete cascade,
    -- The object, whatever its version: superseded ones have no vector.
    canonical_id uuid not null,
    -- Who made the vector: vectors of different models don't compare.
    model        text not null check (model <> ''),
    dimensions   integer not null check (dimensions between 1 and 4000),
    -- content_hash of the version that it was made of.
    content_hash bytea not null,
    -- One bit a dimension, its number's sign: near vectors differ in few, and that can be counted quickly.
    signs        bit varying not null,
    embedded_at  timestamptz not null default now(),
    -- All that a look by signs needs is in the index.
    primary key (project_id, model, canonical_id) include (dimensions, signs)
);
comment on table kb.graph_embeddings is 'Vectors of live objects, one a model';

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

-- Every new version marks its object, whoever writes it. Nothing here can wait for anybody: marks have no key but their number.
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

grant select, insert, update, delete on kb.graph_embeddings, kb.graph_embedding_marks to rejoin_app, rejoin_worker;

-- Workers look for projects that have objects and no vectors.
grant select (id) on kb.projects to rejoin_worker;

-- What is there already.
insert into kb.graph_embedding_marks (project_id) select id from kb.projects;
