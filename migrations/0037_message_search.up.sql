-- Full-text search over a user's messages (docs/guide/chat.md, docs/decisions/0076-message-search.md).

-- The language of a project's messages, by the name of a text search configuration. Without a row: english.
create table kb.search_settings (
    project_id uuid primary key references kb.projects (id) on delete cascade,
    language   text not null,
    updated_at timestamptz not null default now()
);
grant select, insert, update on kb.search_settings to rejoin_app;
alter table kb.search_settings enable row level security;
create policy app on kb.search_settings to rejoin_app using (project_id = kb.current_project());

-- The words of each message of a user or an assistant. Only the functions below read it: `@@` is not leakproof, so that under row-level
-- security no index would serve it.
create table kb.message_words (
    message_id      uuid primary key references kb.chat_messages (id) on delete cascade,
    conversation_id uuid not null,
    -- The words as they are and as their stems; and one lexeme, which no text has, that names the owner.
    words           tsvector not null
);
-- A short pending list: each search reads all of it.
create index message_words_words on kb.message_words using gin (words) with (gin_pending_list_limit = 512);
alter table kb.message_words enable row level security;

-- Projects with messages that have no words yet, or those of another language: up to which message they were done.
create table kb.message_words_backlog (
    project_id      uuid primary key references kb.projects (id) on delete cascade,
    conversation_id uuid not null default '00000000-0000-0000-0000-000000000000',
    seq             bigint not null default 0
);
alter table kb.message_words_backlog enable row level security;
insert into kb.message_words_backlog (project_id) select distinct project_id from kb.chat_conversations;

-- The functions below that have no search path are parts of those that have one: only these may be called. As parts of their expressions, or
-- with a plan that is kept, they cost a message's transaction little.

-- The text search configuration of a project. One that this server lacks counts as `simple`.
create function kb.search_config(p_project uuid) returns regconfig
language plpgsql stable as $$
declare
    v_config regconfig;
begin
    select c.oid into v_config from pg_ts_config c
    where c.cfgnamespace = 'pg_catalog'::regnamespace
      and c.cfgname = coalesce((select s.language from kb.search_settings s where s.project_id = p_project), 'english');
    return coalesce(v_config, 'simple');
end
$$;
revoke all on function kb.search_config from public;

-- The lexeme of an owner. With a space, which the words of a text never have.
create function kb.owner_lexeme(p_project uuid, p_owner uuid) returns text
language sql immutable as $$
    select p_project::text || ' ' || p_owner::text
$$;
revoke all on function kb.owner_lexeme from public;

-- What a search asks for: the words as they are, or their stems.
create function kb.search_query(p_config regconfig, p_text text) returns tsquery
language sql stable set search_path = pg_catalog, pg_temp as $$
    select case
        -- Excluded words: with "or" between both, a message that has an excluded word in another form would be found.
        when strpos(of_language::text, '!') > 0 then of_language
        else websearch_to_tsquery('simple', p_text) || of_language
    end
    from (select websearch_to_tsquery(p_config, p_text) as of_language) q
$$;
revoke all on function kb.search_query from public;

-- A text for PostgreSQL's parser, which takes quadratic time for some texts without spaces: with a space after each 250 characters without one.
create function kb.spaced(p_text text) returns text
language sql immutable as $$
    select case when length(p_text) <= 1000 then p_text else regexp_replace(p_text, '(\S{250})', '\1 ', 'g') end
$$;
revoke all on function kb.spaced from public;

create function kb.words_of_message(p_config regconfig, p_text text) returns tsvector
language sql immutable as $$
    select to_tsvector('simple'::regconfig, kb.spaced(p_text))
        || case when p_config = 'simple'::regconfig then ''::tsvector else to_tsvector(p_config, kb.spaced(p_text)) end
$$;
revoke all on function kb.words_of_message from public;

-- Stores the words of a message, in place of those that it had.
create function kb.add_message_words(p_message_id uuid, p_conversation_id uuid, p_content text) returns void
language plpgsql as $$
declare
    -- A text of this length has words that fit into a tsvector, which has 1 MiB at most.
    c_fits   constant int := 20000;
    v_owner  text;
    v_config regconfig;
    v_words  tsvector;
begin
    select kb.owner_lexeme(c.project_id, c.owner_user_id), kb.search_config(c.project_id) into v_owner, v_config
    from kb.chat_conversations c where c.id = p_conversation_id;
    if length(p_content) <= c_fits then
        v_words := kb.words_of_message(v_config, p_content);
    else
        begin
            v_words := kb.words_of_message(v_config, p_content);
        exception when program_limit_exceeded then
            v_words := kb.words_of_message(v_config, left(p_content, c_fits));
        end;
    end if;
    insert into kb.message_words (message_id, conversation_id, words)
    values (p_message_id, p_conversation_id, v_words || array_to_tsvector(array[v_owner]))
    on conflict (message_id) do update set words = excluded.words;
end
$$;
revoke all on function kb.add_message_words from public;

-- In the transaction that stores the message, by any role.
create function kb.index_message() returns trigger
language plpgsql security definer set search_path = pg_catalog, pg_temp
-- Not one notice for each word that is too long to be a word.
set client_min_messages = warning as $$
begin
    perform kb.add_message_words(new.id, new.conversation_id, new.content);
    return null;
end
$$;
revoke all on function kb.index_message from public;
create trigger words after insert or update of content on kb.chat_messages
    for each row when (new.role <> 'system') execute function kb.index_message();

create function kb.reindex_messages() returns trigger
language plpgsql security definer set search_path = pg_catalog, pg_temp as $$
begin
    insert into kb.message_words_backlog (project_id) values (new.project_id)
    on conflict (project_id) do update set conversation_id = excluded.conversation_id, seq = excluded.seq;
    return null;
end
$$;
revoke all on function kb.reindex_messages from public;
create trigger reindex after insert or update of language on kb.search_settings
    for each row execute function kb.reindex_messages();

-- Stores the words of up to p_limit messages of the backlog. Returns their number; null: nothing is left, or other workers do it.
create function kb.index_message_backlog(p_limit int) returns int
language plpgsql security definer set search_path = pg_catalog, pg_temp set client_min_messages = warning as $$
declare
    v_at      kb.message_words_backlog;
    v_message record;
    v_done    int := 0;
begin
    select * into v_at from kb.message_words_backlog order by project_id limit 1 for update skip locked;
    if not found then
        return null;
    end if;
    for v_message in
        select m.id, m.conversation_id, m.seq, m.role, m.content
        from kb.chat_messages m
        join kb.chat_conversations c on c.id = m.conversation_id
        where c.project_id = v_at.project_id and (m.conversation_id, m.seq) > (v_at.conversation_id, v_at.seq)
        order by m.conversation_id, m.seq
        limit p_limit
        for key share of m
    loop
        if v_message.role <> 'system' then
            perform kb.add_message_words(v_message.id, v_message.conversation_id, v_message.content);
        end if;
        v_done := v_done + 1;
        v_at.conversation_id := v_message.conversation_id;
        v_at.seq := v_message.seq;
    end loop;
    if v_done < p_limit then
        delete from kb.message_words_backlog where project_id = v_at.project_id;
    else
        update kb.message_words_backlog
        set conversation_id = v_at.conversation_id, seq = v_at.seq
        where project_id = v_at.project_id;
    end if;
    return v_done;
end
$$;
revoke all on function kb.index_message_backlog from public;
grant execute on function kb.index_message_backlog to rejoin_worker;

-- The messages of the transaction's user, in its project, that have these words, a page of them: the best ones first. With the rights of the
-- tables' owner, so that the index is used; the conditions here are its own. The newest p_ranked messages that have the words are ranked.
create function kb.search_messages(
    -- As people write it: words, "phrases", or, -excluded.
    p_query           text,
    p_ranked          int,
    -- Narrowed to: a conversation, a folder, the archive or what is not in it, the speaker. Null: all.
    p_conversation_id uuid,
    p_folder_id       uuid,
    p_archived        boolean,
    p_role            text,
    -- The last one of the page before.
    p_after_rank      double precision,
    p_after_id        uuid,
    p_limit           int
) returns table (
    message_id      uuid,
    conversation_id uuid,
    title           text,
    role            text,
    seq             bigint,
    created_at      timestamptz,
    rank            double precision,
    -- Pieces of the message, with U+0002 before each found word, and U+0003 after it.
    snippet         text
)
language plpgsql stable security definer set search_path = pg_catalog, pg_temp
-- Words that a language leaves out need no notice; compiling the query would take longer than running it; how to run it depends on the words.
set client_min_messages = warning set jit = off set plan_cache_mode = force_custom_plan as $$
#variable_conflict use_column
declare
    c_pieces constant text := format('StartSel="%s",StopSel="%s",MaxFragments=2,MaxWords=30,MinWords=8,FragmentDelimiter=" … "', chr(2), chr(3));
    -- Length of the beginning of a message that its snippet is taken from, in characters.
    c_chars  constant int := 20000;
    v_owner  tsquery := quote_literal(kb.owner_lexeme(kb.current_project(), kb.current_owner()))::tsquery;
    v_config regconfig := kb.search_config(kb.current_project());
    v_query  tsquery := kb.search_query(v_config, p_query);
begin
    if v_owner is null or numnode(v_query) = 0 then
        return;
    end if;
    return query
    with newest as materialized (
        -- A rare word is looked up in the index; for one that is everywhere, the newest messages are looked through. Ids sort by time.
        select w.message_id, w.words
        from kb.message_words w
        join kb.chat_conversations c on c.id = w.conversation_id
        where w.words @@ (v_owner && v_query)
          and c.project_id = kb.current_project() and c.owner_user_id = kb.current_owner()
          and (p_conversation_id is null or c.id = p_conversation_id)
          and (p_folder_id is null or c.folder_id = p_folder_id)
          and (p_archived is null or (c.archived_at is not null) = p_archived)
          and (p_role is null or exists (select from kb.chat_messages m where m.id = w.message_id and m.role = p_role))
        order by w.message_id desc
        limit p_ranked
    ), ranked as (
        select n.message_id, ts_rank_cd(n.words, v_query, 1)::double precision as rank
        from newest n
    ), wanted as materialized (
        select r.message_id, r.rank
        from ranked r
        where p_after_id is null or (r.rank, r.message_id) < (p_after_rank, p_after_id)
        order by r.rank desc, r.message_id desc
        limit p_limit
    )
    select m.id, c.id, c.title, m.role, m.seq, m.created_at, f.rank,
           -- It would leave out tags, so that none begins.
           translate(ts_headline(v_config, kb.spaced(translate(left(m.content, c_chars), '<' || chr(2) || chr(3) || chr(4), chr(4))),
                                 v_query, c_pieces),
                     chr(4), '<')
    from wanted f
    join kb.chat_messages m on m.id = f.message_id
    join kb.chat_conversations c on c.id = m.conversation_id
    order by f.rank desc, m.id desc;
end
$$;
revoke all on function kb.search_messages from public;
grant execute on function kb.search_messages to rejoin_app;
