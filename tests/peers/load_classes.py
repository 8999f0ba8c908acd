"""A session of Spark that does some of all that tests do, so that Java loads the classes for it."""

from pyspark.sql import SparkSession

builder = SparkSession.builder.master("local[1]").appName("classes")
builder = builder.config("spark.ui.enabled", "false").config("spark.driver.host", "127.0.0.1")
spark = builder.getOrCreate()
counted = spark.range(9).selectExpr("id % 2 AS odd").where("id > 2").groupBy("odd").count()
counted.orderBy("odd").collect()
spark.range(9).mapInArrow(lambda batches: batches, "id long").collect()
spark.sparkContext.parallelize([1]).map(str).collect()
gateway = spark.sparkContext._gateway
spark.stop()
gateway.proc.stdin.close()
gateway.proc.wait()  # Java stores them at its end
