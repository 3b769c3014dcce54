drop table kb.products;
