// Package compose holds the tests of docker-compose.yml, Dockerfile and
// .env.example.
package compose
