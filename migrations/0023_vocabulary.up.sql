-- The words that objects' keys and names consist of, each once a project: what a word with a typing error is looked up in. There are far
-- fewer of them than objects, so that trigrams find the nearest ones in milliseconds however great the graph is.
create table kb.graph_words (
    project_id uuid not null references kb.projects (id) on delete cascade,
    -- A lexeme as full text search has it.
    word       text not null
);
comment on table kb.graph_words is 'Words of keys and names; some may be of objects that are gone';
-- Not unique: writers of the same new word would wait for each other. Those that race leave it twice, which does no harm.
create index graph_words_word on kb.graph_words (project_id, word);

do $$
begin
    if exists (select from pg_opclass where opcname = 'gin_trgm_ops' and pg_opclass_is_visible(oid)) then
        create index graph_words_trigrams on kb.graph_words using gin (word gin_trgm_ops);
    end if;
end
$$;

-- The words of a key and a name that are worth mending. Codes (numbers, ids: no more letters than digits) are not: what is
-- near one is another one. They would be most of the list, too.
create function kb.words_of(p_names text) returns setof text
language sql immutable parallel safe as $$
    select lexeme
    from unnest(tsvector_to_array(to_tsvector('simple', p_names))) as lexeme
    where length(lexeme) between 3 and 64 and 2 * length(translate(lexeme, '0123456789', '')) > length(lexeme)
$$;

-- Set by set, so that an import learns its words in one go. Reads and adds, and waits for nobody.
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

grant select, insert, delete on kb.graph_words to rejoin_app, rejoin_worker;

-- What is there already.
insert into kb.graph_words (project_id, word)
select distinct o.project_id, words.word
from kb.graph_objects o
cross join lateral kb.words_of(concat_ws(' ', nullif(o.key, o.canonical_id::text), nullif(o.name, o.key))) as words (word)
where o.superseded_at is null and o.deleted_at is null;

-- A process that keeps a project's signs asks for those that came since.
create index graph_embeddings_new on kb.graph_embeddings (project_id, model, embedded_at);
