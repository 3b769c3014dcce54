-- From where a version came, and which call wrote it: set for a transaction (`set local`), so that whatever writes versions in it need not
-- know. Old versions, and whatever says nothing, have none.
alter table kb.graph_objects
    -- chat, ui, api, … : what the writer called itself.
    add column change_source text,
    -- The record of the tool call that wrote it: a call that is repeated after a crash finds that it has been done.
    add column change_id uuid;
alter table kb.graph_relationships
    add column change_source text,
    add column change_id uuid;
-- Apart from the columns, so that the versions that are there stay as they are.
alter table kb.graph_objects
    alter column change_source set default nullif(current_setting('rejoin.change_source', true), ''),
    alter column change_id set default nullif(current_setting('rejoin.change_id', true), '')::uuid;
alter table kb.graph_relationships
    alter column change_source set default nullif(current_setting('rejoin.change_source', true), ''),
    alter column change_id set default nullif(current_setting('rejoin.change_id', true), '')::uuid;
