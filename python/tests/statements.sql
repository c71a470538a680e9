(WITH x AS (SELECT 1) SELECT * FROM x) UNION SELECT * FROM x
WITH x AS (SELECT 1) SELECT * FROM x UNION SELECT * FROM x
SELECT * FROM (TABLE items) AS t
SELECT * FROM (VALUES (1), (2)) AS t
SELECT (TABLE items LIMIT 1)
SELECT ARRAY(SELECT id FROM items)
SELECT * FROM items CROSS JOIN LATERAL (SELECT * FROM comments WHERE comments.item_id = items.id) AS c
SELECT * FROM items, LATERAL generate_series(1, items.id) AS g
SELECT * FROM items TABLESAMPLE BERNOULLI (10)
SELECT * FROM items AS a, (comments AS b JOIN pairs AS c ON b.id = c.a) WHERE c.a = 3
SELECT * FROM (items AS a CROSS JOIN comments) WHERE a.id = 1
SELECT id FROM items WHERE id = 1 IS TRUE
SELECT id FROM items WHERE name = 'a\' AND id = 2 -- '
SELECT id FROM items WHERE name = U&'\0061'
SELECT id FROM items WHERE name = E'a\'b'
SELECT id FROM items WHERE name = $$a'b$$
SELECT id FROM items WHERE name = $a$ FROM comments $a$
SELECT /* FROM comments /* nested */ FROM pairs */ id FROM items
SELECT id FROM items -- FROM comments
SELECT id FROM "items" WHERE "items"."id" = 1
SELECT id FROM Items WHERE ITEMS.ID = 1
SELECT id FROM "Items"
SELECT count(*) FILTER (WHERE id = 1) FROM items
SELECT sum(stars) OVER (PARTITION BY item_id ORDER BY id) FROM comments
SELECT CASE WHEN EXISTS (SELECT FROM comments) THEN 1 END FROM items
SELECT * FROM items WHERE id = ANY (SELECT item_id FROM comments)
SELECT * FROM items WHERE (id, category) IN (SELECT item_id, stars FROM comments)
SELECT * FROM items WHERE (id, category) = (1, 2)
SELECT * FROM items WHERE id = ALL (ARRAY[1, 2])
SELECT * FROM items ORDER BY (SELECT count(*) FROM comments)
SELECT * FROM items LIMIT (SELECT count(*) FROM comments)
SELECT * FROM items GROUP BY GROUPING SETS ((id), ()) HAVING count(*) > (SELECT count(*) FROM pairs)
SELECT DISTINCT ON (category) * FROM items ORDER BY category, id
SELECT items.* FROM items, comments WHERE items.id = comments.item_id AND comments.id = 3
SELECT i FROM items AS i
SELECT i.id::text || name FROM items i
SELECT * FROM postgres.public.items
SELECT * FROM ONLY (items)
SELECT * FROM items *
SELECT name FROM items WHERE id = 1 FOR UPDATE OF items SKIP LOCKED
SELECT * FROM items FETCH FIRST 3 ROWS ONLY
SELECT * FROM items WINDOW w AS (ORDER BY id)
WITH a AS (SELECT * FROM items), b AS (SELECT * FROM a) SELECT * FROM b, comments
WITH a AS NOT MATERIALIZED (SELECT * FROM items) SELECT * FROM a
WITH comments AS (WITH items AS (SELECT * FROM comments) SELECT * FROM items) SELECT * FROM comments, items
SELECT * FROM items WHERE name LIKE 'a%' ESCAPE '!'
SELECT * FROM items WHERE name SIMILAR TO 'a'
SELECT * FROM items WHERE price BETWEEN SYMMETRIC 2 AND 1 AND id = 3
SELECT interval '1 day', timestamp '2020-01-01', date '2020-01-01' FROM items
SELECT * FROM items WHERE id = 1 UNION ALL (SELECT * FROM items WHERE id = 2 ORDER BY id LIMIT 1)
SELECT id AS "from" FROM items AS "select"
SELECT xmin, ctid FROM items
SELECT * FROM items i LEFT JOIN (comments c JOIN pairs p ON c.id = p.a) ON c.item_id = i.id WHERE i.id = 1
SELECT * FROM items i JOIN comments c ON true JOIN pairs p ON p.a = c.id AND i.id = 1
SELECT id, (SELECT max(id) FROM comments WHERE item_id = items.id) FROM items
SELECT name FROM items WHERE name = ALL(SELECT author FROM comments) OR id = 1
SELECT a.id FROM items a JOIN items b USING (id) WHERE a.id = 1
SELECT a.id FROM items a NATURAL LEFT JOIN comments b WHERE a.id = 1
VALUES ((SELECT id FROM items))
