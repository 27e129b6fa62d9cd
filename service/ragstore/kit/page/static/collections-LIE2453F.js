import{i as a}from"./chunk-NCANCGMO.js";import"./chunk-4VRS4BYN.js";export{a as default};
