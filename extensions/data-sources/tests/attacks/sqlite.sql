# What a read-only source is never to do, a statement a line. `orders` is a table with rows. `~`: the walls behind the guard let it
# pass: it changes nothing.
delete from orders
update orders set id = 0
insert into orders values (99)
insert or replace into orders values (99)
replace into orders values (99)
drop table orders
create table stolen as select * from orders
create table stolen (id int)
create temp table stolen (id int)
create virtual table stolen using fts5(x)
create view stolen as select * from orders
create temp view stolen as select * from orders
create trigger t after insert on orders begin delete from orders; end
create index i on orders (id)
create unique index i on orders (id)
alter table orders add column x
alter table orders rename to stolen
alter table orders rename column id to x
alter table orders drop column id
select 1; delete from orders
select 1; select 2
; delete from orders
begin
begin immediate
begin exclusive
commit
end
rollback
savepoint s
release s
rollback to s
attach '/tmp/stolen.db' as stolen
attach database ':memory:' as m
attach 'file:/etc/passwd?mode=ro' as p
detach main
vacuum
vacuum into '/tmp/stolen.db'
reindex
analyze
analyze orders
pragma writable_schema = on
pragma query_only = off
pragma journal_mode = delete
pragma journal_mode
pragma user_version = 5
pragma foreign_keys = off
~pragma table_info(orders)
pragma trusted_schema = on
pragma temp_store_directory = '/tmp'
pragma cache_size = 1000000
pragma locking_mode = exclusive
pragma wal_checkpoint
pragma optimize
pragma incremental_vacuum
pragma module_list
pragma database_list
pragma compile_options
select * from pragma_database_list
select * from pragma_compile_options
select * from pragma_function_list
select * from pragma_journal_mode
select * from pragma_query_only(0)
select * from pragma_user_version(5)
select load_extension('/tmp/x.so')
select LOAD_EXTENSION('/tmp/x.so', 'x')
select "load_extension"('/tmp/x.so')
select [load_extension]('/tmp/x.so')
select `load_extension`('/tmp/x.so')
select load_extension/* */('/tmp/x.so')
select writefile('/tmp/stolen', 'x')
select readfile('/etc/passwd')
select edit('x', 'sh')
select * from fsdir('/')
select fts3_tokenizer('simple')
select fts5()
select sqlite_compileoption_get(1)
select sqlite_source_id()
select sqlite_log(1, 'x')
select 1 where load_extension('/tmp/x.so')
select 1 order by load_extension('/tmp/x.so')
select (select load_extension('/tmp/x.so'))
select case when 1 then load_extension('/tmp/x.so') end
values (load_extension('/tmp/x.so'))
select count(*) filter (where load_extension('/tmp/x.so')) from orders
select sum(id) over (order by load_extension('/tmp/x.so')) from orders
with x as (select load_extension('/tmp/x.so')) select * from x
with d as (select 1) delete from orders
with d as (select 1) insert into orders select * from d
with d as (select 1) update orders set id = 0
with d as (delete from orders returning *) select * from d
explain delete from orders
explain query plan delete from orders
explain insert into orders values (99)
insert into sqlite_schema values (1, 2, 3, 4, 5)
update sqlite_master set sql = 'x'
delete from sqlite_schema
select * from dbstat
select * from sqlite_dbpage
select * from bytecode('select 1')
select * from orders for update
