"""Files of clusters of Hadoop by hdfs-native; `store` is where to start reading."""
